// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* GuestMemory. */
#include "memory.hpp"

#include "host_fixture.hpp"

#include <gtest/gtest.h>

#include <array>
#include <limits>

namespace cx::test {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kTop = std::numeric_limits<std::uint64_t>::max() - kPage + 1; /* the last page there is */

class MemoryTest : public testing::Test {
protected:
    std::string Read(std::uint64_t address, std::size_t size, bool expected = true) const
    {
        std::string text(size, '?');

        EXPECT_EQ(memory_.Read(address, std::as_writable_bytes(std::span(text))), expected);
        return text;
    }
    bool Write(std::uint64_t address, const std::string &text) const
    {
        return memory_.Write(address, std::as_bytes(std::span(text)));
    }

    FileDescriptor file_ = MakeMemory(16 * kPage);
    GuestMemory memory_;
};

TEST_F(MemoryTest, RefusesWhatOverlaps)
{
    ASSERT_TRUE(memory_.Map(4 * kPage, 4 * kPage, file_.Get(), 0, true));
    EXPECT_FALSE(memory_.Map(4 * kPage, 4 * kPage, file_.Get(), 0, true));
    EXPECT_FALSE(memory_.Map(5 * kPage, kPage, file_.Get(), 0, true));
    EXPECT_FALSE(memory_.Map(7 * kPage, 2 * kPage, file_.Get(), 0, true));
    EXPECT_FALSE(memory_.Map(3 * kPage, 2 * kPage, file_.Get(), 0, true));
    EXPECT_FALSE(memory_.Map(0, 16 * kPage, file_.Get(), 0, true));
    EXPECT_TRUE(memory_.Map(8 * kPage, kPage, file_.Get(), 0, true));
    EXPECT_TRUE(memory_.Map(3 * kPage, kPage, file_.Get(), 0, true));
    EXPECT_EQ(memory_.Ranges(), 3U);
}

TEST_F(MemoryTest, RefusesEmptyAndWrapping)
{
    EXPECT_FALSE(memory_.Map(0, 0, file_.Get(), 0, true));
    EXPECT_FALSE(memory_.Map(kTop, 2 * kPage, file_.Get(), 0, true));
    EXPECT_FALSE(memory_.Map(kPage, std::numeric_limits<std::uint64_t>::max(), -1, 0, true));
    EXPECT_FALSE(memory_.Unmap(0, 0));
    EXPECT_FALSE(memory_.Unmap(kTop, 2 * kPage));
    EXPECT_TRUE(memory_.Map(kTop, kPage, file_.Get(), 0, true));
    EXPECT_TRUE(Write(kTop + kPage - 3, "end"));
    EXPECT_EQ(Read(kTop + kPage - 3, 3), "end");
    Read(kTop + kPage - 3, 4, false);
    EXPECT_FALSE(Write(kTop + kPage - 3, "over"));
}

TEST_F(MemoryTest, DoesNotWrapToTheFirstAddress)
{
    ASSERT_TRUE(memory_.Map(kTop, kPage, file_.Get(), 0, true));
    ASSERT_TRUE(memory_.Map(0, kPage, file_.Get(), kPage, true));
    Read(kTop + kPage - 2, 4, false);
    EXPECT_FALSE(Write(kTop + kPage - 2, "four"));
}

TEST_F(MemoryTest, MapsOnlyWhatTheFileHas)
{
    EXPECT_FALSE(memory_.Map(0, 17 * kPage, file_.Get(), 0, true));
    EXPECT_FALSE(memory_.Map(0, kPage, file_.Get(), 16 * kPage, true));
    EXPECT_FALSE(memory_.Map(0, 2 * kPage, file_.Get(), std::numeric_limits<std::uint64_t>::max() - kPage + 1, true));
    EXPECT_EQ(memory_.Ranges(), 0U);
    EXPECT_TRUE(memory_.Map(0, 16 * kPage, file_.Get(), 0, true));
}

TEST_F(MemoryTest, OffsetNeedNotBeAPage)
{
    const std::string text = "somewhere";

    ASSERT_EQ(pwrite(file_.Get(), text.data(), text.size(), kPage + 100), static_cast<ssize_t>(text.size()));
    ASSERT_TRUE(memory_.Map(0x123, text.size(), file_.Get(), kPage + 100, true));
    EXPECT_EQ(Read(0x123, text.size()), text);
}

TEST_F(MemoryTest, ReadsAndWritesAcrossAdjacentRanges)
{
    ASSERT_TRUE(memory_.Map(0, kPage, file_.Get(), 8 * kPage, true));
    ASSERT_TRUE(memory_.Map(kPage, kPage, file_.Get(), 0, true));
    ASSERT_TRUE(memory_.Map(2 * kPage, kPage, file_.Get(), 4 * kPage, true));
    const std::string text(2 * kPage, 'x');
    EXPECT_TRUE(Write(kPage / 2, text));
    EXPECT_EQ(Read(kPage / 2, 2 * kPage), text);
    EXPECT_EQ(memory_.At(kPage - 1, 2), nullptr);
    EXPECT_NE(memory_.At(kPage - 1, 1), nullptr);
    /* it is the file's bytes, those of the first range at its offset */
    std::array<char, 2> bytes = {};
    ASSERT_EQ(pread(file_.Get(), bytes.data(), 2, 8 * kPage + kPage / 2 - 1), 2);
    EXPECT_EQ(bytes[0], 0);
    EXPECT_EQ(bytes[1], 'x');
    Read(5 * kPage / 2, kPage, false); /* past the last range */
    Read(3 * kPage, 1, false);
}

TEST_F(MemoryTest, GapEndsAnAccess)
{
    ASSERT_TRUE(memory_.Map(0, kPage, file_.Get(), 0, true));
    ASSERT_TRUE(memory_.Map(2 * kPage, kPage, file_.Get(), 0, true));
    Read(kPage - 1, kPage + 2, false);
    EXPECT_FALSE(Write(kPage - 1, std::string(kPage + 2, 'y')));
    EXPECT_TRUE(Write(kPage - 1, "y"));
}

TEST_F(MemoryTest, WithoutADescriptorNothingIsAccessible)
{
    ASSERT_TRUE(memory_.Map(0, kPage, -1, 0, true));
    EXPECT_EQ(memory_.At(0, 1), nullptr);
    Read(0, 1, false);
    EXPECT_FALSE(Write(0, "x"));
    EXPECT_FALSE(memory_.Map(0, kPage, file_.Get(), 0, true)); /* though it is there */
    EXPECT_TRUE(memory_.Unmap(0, kPage));
    EXPECT_TRUE(memory_.Map(0, kPage, file_.Get(), 0, true));
}

TEST_F(MemoryTest, ReadOnlyIsNotWritten)
{
    ASSERT_TRUE(memory_.Map(0, kPage, file_.Get(), 0, false));
    EXPECT_EQ(Read(0, 4), std::string(4, '\0'));
    EXPECT_FALSE(Write(0, "x"));
    EXPECT_EQ(memory_.At(0, 1), nullptr);
}

TEST_F(MemoryTest, UnmapsSeveralAndNoParts)
{
    ASSERT_TRUE(memory_.Map(kPage, kPage, file_.Get(), 0, true));
    ASSERT_TRUE(memory_.Map(2 * kPage, 2 * kPage, file_.Get(), 0, true));
    ASSERT_TRUE(memory_.Map(8 * kPage, kPage, file_.Get(), 0, true));
    EXPECT_FALSE(memory_.Unmap(0, 3 * kPage));         /* ends within the second */
    EXPECT_FALSE(memory_.Unmap(3 * kPage, 8 * kPage)); /* begins within it */
    EXPECT_FALSE(memory_.Unmap(2 * kPage + 1, 1));     /* lies within it */
    EXPECT_EQ(memory_.Ranges(), 3U);
    EXPECT_TRUE(memory_.Unmap(0, 4 * kPage));
    EXPECT_EQ(memory_.Ranges(), 1U);
    Read(kPage, 1, false);
    Read(8 * kPage, 1);
    EXPECT_TRUE(memory_.Unmap(0, kPage)); /* nothing is there */
    memory_.UnmapAll();
    Read(8 * kPage, 1, false);
}

} // namespace
} // namespace cx::test
