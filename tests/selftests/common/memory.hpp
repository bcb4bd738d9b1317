// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Anonymous memory for registration: plain 4 KiB pages, huge pages, or one
// region with a border between the two in its middle.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

namespace rocev2::test {

inline constexpr size_t page_size = 4096;
inline constexpr int huge_page_shift = 21;
inline constexpr size_t huge_page_size = size_t{1} << huge_page_shift;

// huge and mixed take huge pages if they can get them; hugetlb (reserved pages of 2 MiB) and
// transparent ones fail the case if not.
enum class Paging { small, huge, mixed, hugetlb, transparent };

class Buffer {
public:
    Buffer() = default;
    explicit Buffer(size_t size, Paging paging = Paging::small);
    ~Buffer();
    Buffer(Buffer &&other) noexcept { *this = std::move(other); }
    Buffer &operator=(Buffer &&other) noexcept;

    std::byte *data() const { return data_; }
    size_t size() const { return size_; }
    std::span<std::byte> span() const { return {data_, size_}; }
    std::span<std::byte> span(size_t offset, size_t length) const
    {
        return span().subspan(offset, length);
    }

private:
    void demand_huge_pages(Paging paging);

    std::byte *data_ = nullptr;
    size_t size_ = 0;
    void *map_ = nullptr;
    size_t map_size_ = 0;
};

// How much memory can be used without pushing the machine over the edge.
size_t available_memory();

} // namespace rocev2::test
