// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// A dma-buf without a device: pages of a memfd, exported by /dev/udmabuf.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace rocev2::test {

class Udmabuf {
public:
    // Of `size` bytes, whole pages; mapped here too.
    explicit Udmabuf(size_t size);
    ~Udmabuf();
    Udmabuf(const Udmabuf &) = delete;
    Udmabuf &operator=(const Udmabuf &) = delete;

    int fd() const { return fd_; }
    int memfd() const { return memfd_; }
    std::span<std::byte> span() const { return {data_, size_}; }
    std::span<std::byte> span(size_t offset, size_t length) const
    {
        return span().subspan(offset, length);
    }
    // The descriptors; the mapping stays.
    void close_all();
    // DMA_BUF_IOCTL_SYNC, both directions; flags: DMA_BUF_SYNC_START or _END
    void sync(uint64_t flags) const;

private:
    size_t size_;
    int memfd_ = -1;
    int fd_ = -1;
    std::byte *data_ = nullptr;
};

} // namespace rocev2::test
