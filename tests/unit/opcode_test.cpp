// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// opcode.c against the specification's opcode table, typed in here a second time: number, headers
// by name, and what a packet may do. Lengths follow from the headers.
#include <gtest/gtest.h>
#include <map>
#include <string>

#include "kernel.hpp"

namespace {

enum Place { kFirst, kMiddle, kLast, kOnly };

struct Row {
    rocev2_op_class cls;
    Place place;
    std::string headers;  // in wire order: r=RETH a=AETH t=AtomicETH k=AtomicAckETH i=ImmDt v=IETH d=DETH f=FETH
    bool payload;
    bool receive;   // takes a receive WQE
    bool response;  // travels from responder to requester
};

const std::map<int, Row> kTable = {
    // RC
    {0x00, {ROCEV2_CLASS_SEND, kFirst, "", true, true, false}},
    {0x01, {ROCEV2_CLASS_SEND, kMiddle, "", true, true, false}},
    {0x02, {ROCEV2_CLASS_SEND, kLast, "", true, true, false}},
    {0x03, {ROCEV2_CLASS_SEND, kLast, "i", true, true, false}},
    {0x04, {ROCEV2_CLASS_SEND, kOnly, "", true, true, false}},
    {0x05, {ROCEV2_CLASS_SEND, kOnly, "i", true, true, false}},
    {0x06, {ROCEV2_CLASS_WRITE, kFirst, "r", true, false, false}},
    {0x07, {ROCEV2_CLASS_WRITE, kMiddle, "", true, false, false}},
    {0x08, {ROCEV2_CLASS_WRITE, kLast, "", true, false, false}},
    {0x09, {ROCEV2_CLASS_WRITE, kLast, "i", true, true, false}},
    {0x0a, {ROCEV2_CLASS_WRITE, kOnly, "r", true, false, false}},
    {0x0b, {ROCEV2_CLASS_WRITE, kOnly, "ri", true, true, false}},
    {0x0c, {ROCEV2_CLASS_READ_REQ, kOnly, "r", false, false, false}},
    {0x0d, {ROCEV2_CLASS_READ_RESP, kFirst, "a", true, false, true}},
    {0x0e, {ROCEV2_CLASS_READ_RESP, kMiddle, "", true, false, true}},
    {0x0f, {ROCEV2_CLASS_READ_RESP, kLast, "a", true, false, true}},
    {0x10, {ROCEV2_CLASS_READ_RESP, kOnly, "a", true, false, true}},
    {0x11, {ROCEV2_CLASS_ACK, kOnly, "a", false, false, true}},
    {0x12, {ROCEV2_CLASS_ATOMIC_ACK, kOnly, "ak", false, false, true}},
    {0x13, {ROCEV2_CLASS_ATOMIC, kOnly, "t", false, false, false}},
    {0x14, {ROCEV2_CLASS_ATOMIC, kOnly, "t", false, false, false}},
    {0x16, {ROCEV2_CLASS_SEND, kLast, "v", true, true, false}},
    {0x17, {ROCEV2_CLASS_SEND, kOnly, "v", true, true, false}},
    {0x1c, {ROCEV2_CLASS_FLUSH, kOnly, "fr", false, false, false}},
    {0x1d, {ROCEV2_CLASS_ATOMIC_WRITE, kOnly, "r", true, false, false}},
    // UC
    {0x20, {ROCEV2_CLASS_SEND, kFirst, "", true, true, false}},
    {0x21, {ROCEV2_CLASS_SEND, kMiddle, "", true, true, false}},
    {0x22, {ROCEV2_CLASS_SEND, kLast, "", true, true, false}},
    {0x23, {ROCEV2_CLASS_SEND, kLast, "i", true, true, false}},
    {0x24, {ROCEV2_CLASS_SEND, kOnly, "", true, true, false}},
    {0x25, {ROCEV2_CLASS_SEND, kOnly, "i", true, true, false}},
    {0x26, {ROCEV2_CLASS_WRITE, kFirst, "r", true, false, false}},
    {0x27, {ROCEV2_CLASS_WRITE, kMiddle, "", true, false, false}},
    {0x28, {ROCEV2_CLASS_WRITE, kLast, "", true, false, false}},
    {0x29, {ROCEV2_CLASS_WRITE, kLast, "i", true, true, false}},
    {0x2a, {ROCEV2_CLASS_WRITE, kOnly, "r", true, false, false}},
    {0x2b, {ROCEV2_CLASS_WRITE, kOnly, "ri", true, true, false}},
    // UD
    {0x64, {ROCEV2_CLASS_SEND, kOnly, "d", true, true, false}},
    {0x65, {ROCEV2_CLASS_SEND, kOnly, "di", true, true, false}},
};

struct Header {
    int flag;
    int length;
};

const std::map<char, Header> kHeaders = {
    {'r', {ROCEV2_F_RETH, 16}},     {'a', {ROCEV2_F_AETH, 4}}, {'t', {ROCEV2_F_ATOMICETH, 28}},
    {'k', {ROCEV2_F_ATOMICACK, 8}}, {'i', {ROCEV2_F_IMMDT, 4}}, {'v', {ROCEV2_F_IETH, 4}},
    {'d', {ROCEV2_F_DETH, 8}},      {'f', {ROCEV2_F_FETH, 4}},
};

constexpr int kCnp = 0x81;

TEST(Opcode, EveryKnownRowIsWhatTheSpecificationSays)
{
    for (const auto& [opcode, want] : kTable) {
        SCOPED_TRACE(testing::Message() << "opcode 0x" << std::hex << opcode);
        const auto& got = rocev2_opcodes[opcode];

        int length = 12, flags = 0, imm = 0;
        for (const char c : want.headers) {
            if (c == 'i' || c == 'v')
                imm = length;
            flags |= kHeaders.at(c).flag;
            length += kHeaders.at(c).length;
        }
        if (want.place == kFirst || want.place == kOnly)
            flags |= ROCEV2_F_START;
        if (want.place == kLast || want.place == kOnly)
            flags |= ROCEV2_F_END;
        if (want.payload)
            flags |= ROCEV2_F_PAYLOAD;
        if (want.receive)
            flags |= ROCEV2_F_RECV_WQE;
        if (want.response)
            flags |= ROCEV2_F_RESPONSE;

        ASSERT_NE(got.name, nullptr);
        EXPECT_EQ(got.cls, want.cls);
        EXPECT_EQ(got.flags, flags);
        EXPECT_EQ(got.hdr_len, length);
        EXPECT_EQ(got.imm_off, imm);
    }
}

TEST(Opcode, EverythingElseIsUnknown)
{
    int unknown = 0;
    for (int opcode = 0; opcode < 256; opcode++) {
        if (kTable.contains(opcode) || opcode == kCnp)
            continue;
        const auto& got = rocev2_opcodes[opcode];
        EXPECT_EQ(got.name, nullptr) << opcode;
        EXPECT_EQ(got.cls, ROCEV2_CLASS_NONE) << opcode;
        EXPECT_EQ(got.flags, 0) << opcode;
        EXPECT_EQ(got.hdr_len, 0) << opcode;
        EXPECT_EQ(got.imm_off, 0) << opcode;
        unknown++;
    }
    EXPECT_EQ(unknown, 256 - 25 - 12 - 2 - 1);
}

TEST(Opcode, CnpIsNamedAndIgnored)
{
    EXPECT_STREQ(rocev2_opcodes[kCnp].name, "CNP");
    EXPECT_EQ(rocev2_opcodes[kCnp].cls, ROCEV2_CLASS_NONE);
    EXPECT_EQ(rocev2_opcodes[kCnp].hdr_len, 28);
}

TEST(Opcode, NamesAreTheSpecificationsAndUnique)
{
    EXPECT_STREQ(rocev2_opcodes[0x03].name, "RC SEND Last with Immediate");
    EXPECT_STREQ(rocev2_opcodes[0x0d].name, "RC RDMA READ response First");
    EXPECT_STREQ(rocev2_opcodes[0x2a].name, "UC RDMA WRITE Only");
    std::map<std::string, int> seen;
    for (int opcode = 0; opcode < 256; opcode++)
        if (rocev2_opcodes[opcode].name) {
            EXPECT_TRUE(seen.emplace(rocev2_opcodes[opcode].name, opcode).second) << opcode;
        }
    EXPECT_EQ(seen.size(), kTable.size() + 1);
}

// rx dispatch relies on it: responses are exactly the classes from READ_RESP on
TEST(Opcode, ClassAndResponseFlagAgree)
{
    for (const auto& row : rocev2_opcodes)
        if (row.cls != ROCEV2_CLASS_NONE) {
            EXPECT_EQ(row.cls >= ROCEV2_CLASS_READ_RESP, (row.flags & ROCEV2_F_RESPONSE) != 0)
                << row.name;
        }
}

}  // namespace
