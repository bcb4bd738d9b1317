// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// See memory.hpp.
#include "common/memory.hpp"

#include "common/ktap.hpp"

#include <linux/mman.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

namespace rocev2::test {

Buffer::Buffer(size_t size, Paging paging) : size_(size)
{
    // Room to start on a huge page border whatever mmap() returns.
    map_size_ = (size + page_size - 1) / page_size * page_size + huge_page_size;
    map_ = mmap(nullptr, map_size_, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map_ == MAP_FAILED) {
        map_ = nullptr;
        fail("mmap of {} bytes: {}", map_size_, std::strerror(errno));
    }
    const auto address = reinterpret_cast<uintptr_t>(map_);
    const uintptr_t aligned = (address + huge_page_size - 1) & ~(huge_page_size - 1);
    data_ = reinterpret_cast<std::byte *>(aligned);

    if (paging == Paging::hugetlb || paging == Paging::transparent) {
        demand_huge_pages(paging);
        return;
    }
    size_t huge_bytes = 0;
    if (paging == Paging::huge)
        huge_bytes = size / huge_page_size * huge_page_size;
    else if (paging == Paging::mixed)
        huge_bytes = size / 2 / huge_page_size * huge_page_size;
    if (huge_bytes) {
        // Reserved huge pages if the machine has some, else transparent ones;
        // a kernel with neither still gives memory, in 4 KiB pages.
        void *huge = mmap(data_, huge_bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_FIXED, -1, 0);
        if (huge == MAP_FAILED) {
            huge = mmap(data_, huge_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
            if (huge == MAP_FAILED)
                fail("mmap of {} bytes: {}", huge_bytes, std::strerror(errno));
            madvise(data_, huge_bytes, MADV_HUGEPAGE);
        }
    }
    if (huge_bytes < size)
        madvise(data_ + huge_bytes, (size - huge_bytes + page_size - 1) & ~(page_size - 1),
                MADV_NOHUGEPAGE);
}

void Buffer::demand_huge_pages(Paging paging)
{
    const size_t size = (size_ + huge_page_size - 1) & ~(huge_page_size - 1);
    const bool reserved = paging == Paging::hugetlb;
    if (size > map_size_ - static_cast<size_t>(data_ - static_cast<std::byte *>(map_)))
        fail("a buffer of huge pages must have a size in huge pages, not {} bytes", size_);
    // Reserved by mmap(), which fails if there are too few.
    if (mmap(data_, size, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED |
                 (reserved ? MAP_HUGETLB | MAP_HUGE_2MB : MAP_NORESERVE),
             -1, 0) == MAP_FAILED)
        fail("mmap of {} huge pages: {}; write more to /proc/sys/vm/nr_hugepages",
             size / huge_page_size, std::strerror(errno));
    if (!reserved && madvise(data_, size, MADV_HUGEPAGE))
        fail("madvise(MADV_HUGEPAGE): {}; the kernel has no transparent huge pages",
             std::strerror(errno));
}

Buffer::~Buffer()
{
    if (map_)
        munmap(map_, map_size_);
}

Buffer &Buffer::operator=(Buffer &&other) noexcept
{
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(map_, other.map_);
    std::swap(map_size_, other.map_size_);
    return *this;
}

size_t available_memory()
{
    std::ifstream meminfo("/proc/meminfo");
    std::string word;
    while (meminfo >> word) {
        size_t kib = 0;
        if (word == "MemAvailable:" && meminfo >> kib)
            return kib * 1024;
    }
    return 0;
}

} // namespace rocev2::test
