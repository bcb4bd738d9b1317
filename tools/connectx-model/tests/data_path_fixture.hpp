// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * A data path on its own: guest memory, a bus that notes interrupts, a wire that notes frames, and time that passes
 * when the test says so. Rings are read and written by the offsets of linux/mlx5/device.h and qp.h, not by the model's
 * own.
 */
#pragma once

#include "datapath.hpp"

#include <gtest/gtest.h>

#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <vector>

namespace cx {

using Bytes = std::vector<std::byte>;

inline Bytes MakeBytes(std::initializer_list<unsigned> values)
{
    Bytes bytes;

    for (const unsigned value : values)
        bytes.push_back(static_cast<std::byte>(value));
    return bytes;
}

/** A big-endian number of `size` bytes. */
inline std::uint64_t Number(std::span<const std::byte> bytes, std::size_t at, std::size_t size)
{
    std::uint64_t value = 0;

    for (std::size_t i = 0; i < size; ++i)
        value = value << 8 | std::to_integer<std::uint64_t>(bytes[at + i]);
    return value;
}

inline void SetNumber(std::span<std::byte> bytes, std::size_t at, std::size_t size, std::uint64_t value)
{
    for (std::size_t i = 0; i < size; ++i)
        bytes[at + i] = static_cast<std::byte>(value >> (8 * (size - 1 - i)));
}

/** RFC 1071 in its plainest form: the folded sum of 16-bit words, not complemented. */
inline unsigned PlainSum(std::span<const std::byte> bytes, unsigned start = 0)
{
    unsigned sum = start;

    for (std::size_t i = 0; i < bytes.size(); i += 2) {
        sum += static_cast<unsigned>(Number(bytes, i, 1)) << 8;
        if (i + 1 < bytes.size())
            sum += static_cast<unsigned>(Number(bytes, i + 1, 1));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    return (sum & 0xffff) + (sum >> 16);
}

class FakeTimers : public Timers {
public:
    Clock::time_point Now() const override
    {
        return now_;
    }
    Id After(Clock::duration delay, std::function<void()> action) override
    {
        pending_[++last_] = {now_ + delay, std::move(action)};
        return last_;
    }
    void Cancel(Id id) override
    {
        pending_.erase(id);
    }
    /** Let time pass, and run what is due in its order. */
    void Advance(Clock::duration by)
    {
        const auto end = now_ + by;

        for (;;) {
            auto next = pending_.end();

            for (auto at = pending_.begin(); at != pending_.end(); ++at)
                if (at->second.first <= end && (next == pending_.end() || at->second.first < next->second.first))
                    next = at;
            if (next == pending_.end())
                break;
            now_ = std::max(now_, next->second.first);
            const auto action = std::move(next->second.second);
            pending_.erase(next);
            action();
        }
        now_ = end;
    }
    std::size_t Pending() const
    {
        return pending_.size();
    }

private:
    Clock::time_point now_{std::chrono::seconds(1000)};
    Id last_ = 0;
    std::map<Id, std::pair<Clock::time_point, std::function<void()>>> pending_;
};

class RecordingBus : public Bus {
public:
    GuestMemory &Memory() override
    {
        return memory;
    }
    void Interrupt(unsigned vector) override
    {
        interrupts.push_back(vector);
    }

    GuestMemory memory;
    std::vector<unsigned> interrupts;
};

class RecordingWire : public Wire {
public:
    void Send(std::span<const std::byte> frame) override
    {
        frames.emplace_back(frame.begin(), frame.end());
    }
    bool Ready() const override
    {
        return ready;
    }

    std::vector<Bytes> frames;
    bool ready = true;
};

class DataPathTest : public testing::Test {
protected:
    static constexpr std::uint64_t kGuestStart = 0x100000, kGuestSize = 4 << 20, kUnmapped = 0x80000000;
    static constexpr std::uint32_t kPd = 7, kKey = 0x1234, kPaKey = 0x5600;
    static constexpr unsigned kCompletionVector = 3, kAsyncVector = 1;
    static constexpr std::uint32_t kEq = 5, kAsyncEq = 4, kCq = 0x11, kSq = 0x22, kRq = 0x33;

    DataPathTest()
    {
        const int fd = memfd_create("guest", MFD_CLOEXEC);

        EXPECT_GE(fd, 0);
        EXPECT_EQ(ftruncate(fd, kGuestSize), 0);
        EXPECT_TRUE(bus.memory.Map(kGuestStart, kGuestSize, fd, 0, true));
        close(fd);
        Mkey key;
        key.key = kPaKey;
        key.pd = kPd;
        key.physical = key.length64 = key.local_read = key.local_write = true;
        objects.mkeys[kPaKey >> 8] = key;
    }

    /** Pages of the guest, never handed out twice. */
    std::uint64_t Allocate(std::uint64_t size)
    {
        const std::uint64_t at = next_;

        next_ += (size + kPageSize - 1) / kPageSize * kPageSize;
        EXPECT_LE(next_, kGuestStart + kGuestSize);
        return at;
    }
    Ring MakeRing(unsigned log_entries, unsigned log_stride)
    {
        const std::uint64_t size = std::uint64_t{1} << (log_entries + log_stride);
        Ring ring;

        ring.log_entries = log_entries;
        ring.log_stride = log_stride;
        for (std::uint64_t done = 0; done < size; done += kPageSize) {
            ring.pages.push_back(Allocate(kPageSize));
            Allocate(kPageSize); /* so that pages do not adjoin */
        }
        return ring;
    }
    Eq &AddEq(std::uint32_t number, unsigned log_entries, unsigned vector, std::uint64_t events)
    {
        Eq eq;

        eq.number = number;
        eq.ring = MakeRing(log_entries, 6);
        eq.vector = vector;
        eq.events[0] = events;
        return objects.eqs[number] = eq;
    }
    Cq &AddCq(std::uint32_t number, std::uint32_t eq, unsigned log_entries, bool cqe_128 = false)
    {
        Cq cq;

        cq.number = number;
        cq.ring = MakeRing(log_entries, cqe_128 ? 7 : 6);
        cq.cqe_128 = cqe_128;
        cq.eq = eq;
        cq.doorbell_record = Allocate(8);
        return objects.cqs[number] = cq;
    }
    Sq &AddSq(std::uint32_t number, std::uint32_t cq, unsigned log_entries)
    {
        Sq sq;

        sq.number = number;
        sq.ring = MakeRing(log_entries, 6);
        sq.cq = cq;
        sq.pd = kPd;
        sq.doorbell_record = Allocate(8);
        sq.state = WqState::kReady;
        return objects.sqs[number] = sq;
    }
    Rq &AddRq(std::uint32_t number, std::uint32_t cq, unsigned log_entries, unsigned log_stride)
    {
        Rq rq;

        rq.number = number;
        rq.ring = MakeRing(log_entries, log_stride);
        rq.cq = cq;
        rq.pd = kPd;
        rq.doorbell_record = Allocate(8);
        rq.state = WqState::kReady;
        return objects.rqs[number] = rq;
    }
    /** kKey: `pages` pages from virtual address `start` on. */
    Mkey &AddKey(std::uint64_t start, std::uint64_t length, std::vector<std::uint64_t> pages)
    {
        Mkey key;

        key.key = kKey;
        key.pd = kPd;
        key.start = start;
        key.length = length;
        key.local_read = key.local_write = true;
        key.pages = std::move(pages);
        return objects.mkeys[kKey >> 8] = key;
    }

    Bytes Read(std::uint64_t address, std::size_t size)
    {
        Bytes bytes(size);

        EXPECT_TRUE(bus.memory.Read(address, bytes));
        return bytes;
    }
    void Write(std::uint64_t address, std::span<const std::byte> bytes)
    {
        EXPECT_TRUE(bus.memory.Write(address, bytes));
    }
    void WriteNumber(std::uint64_t address, std::size_t size, std::uint64_t value)
    {
        Bytes bytes(size);

        SetNumber(bytes, 0, size, value);
        Write(address, bytes);
    }
    Bytes Entry(const Ring &ring, std::uint64_t index)
    {
        return Read(ring.Address(index << ring.log_stride), std::size_t{1} << ring.log_stride);
    }

    /** The WQE into the ring at the queue's posted index; the doorbell record moves, the doorbell does not ring. */
    void PostWqe(Sq &sq, Bytes wqe)
    {
        wqe.resize((wqe.size() + 63) / 64 * 64);
        for (std::size_t i = 0; i < wqe.size() / 64; ++i)
            Write(sq.ring.Address((std::uint64_t{posted_[sq.number]} + i) << 6), std::span(wqe).subspan(i * 64, 64));
        posted_[sq.number] = static_cast<std::uint16_t>(posted_[sq.number] + wqe.size() / 64);
        WriteNumber(sq.doorbell_record + 4, 4, posted_[sq.number]);
    }
    std::uint16_t &Posted(const Sq &sq)
    {
        return posted_[sq.number];
    }
    /** A control segment for the WQE that is posted next; `segments`: units of 16 bytes. */
    Bytes Control(const Sq &sq, unsigned opcode, unsigned segments, unsigned flags)
    {
        Bytes control(16);

        SetNumber(control, 0, 4, std::uint64_t{posted_[sq.number]} << 8 | opcode);
        SetNumber(control, 4, 4, std::uint64_t{sq.number} << 8 | segments);
        SetNumber(control, 11, 1, flags);
        return control;
    }
    void PostNop(Sq &sq, unsigned flags = 2 << 2)
    {
        PostWqe(sq, Control(sq, 0, 1, flags));
    }
    void RingDoorbell(const Sq &sq)
    {
        path.SqDoorbell(std::uint32_t{posted_[sq.number]} << 8, sq.number << 8);
    }
    /** `count` completions in the queue's CQ. */
    void Complete(Sq &sq, unsigned count = 1, unsigned flags = 2 << 2)
    {
        for (unsigned i = 0; i < count; ++i) {
            PostNop(sq, flags);
            RingDoorbell(sq);
        }
    }
    void Arm(const Cq &cq, std::uint32_t consumer, unsigned sequence, bool solicited = false)
    {
        path.CqDoorbell(sequence << 28 | (solicited ? 1U << 24 : 0) | (consumer & 0xffffff), cq.number);
    }

    Objects objects;
    RecordingBus bus;
    FakeTimers timers;
    RecordingWire wire;
    Trace trace{false};
    DataPath path{objects, bus, timers, wire, trace};

private:
    std::uint64_t next_ = kGuestStart;
    std::map<std::uint32_t, std::uint16_t> posted_;
};

} // namespace cx
