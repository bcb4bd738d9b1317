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
inline constexpr size_t huge_page_size = 2u << 20;

enum class Paging { small, huge, mixed };

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
    std::byte *data_ = nullptr;
    size_t size_ = 0;
    void *map_ = nullptr;
    size_t map_size_ = 0;
};

// How much memory can be used without pushing the machine over the edge.
size_t available_memory();

} // namespace rocev2::test
