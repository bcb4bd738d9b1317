// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "common/udmabuf.hpp"

#include "common/ktap.hpp"

#include <fcntl.h>
#include <linux/dma-buf.h>
#include <linux/udmabuf.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace rocev2::test {

Udmabuf::Udmabuf(size_t size) : size_(size)
{
    memfd_ = memfd_create("dmabuf", MFD_ALLOW_SEALING | MFD_CLOEXEC);
    require(memfd_ >= 0 && !ftruncate(memfd_, static_cast<off_t>(size)) &&
                !fcntl(memfd_, F_ADD_SEALS, F_SEAL_SHRINK), "memfd: {}", std::strerror(errno));
    data_ = static_cast<std::byte *>(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, memfd_, 0));
    require(data_ != MAP_FAILED, "mmap: {}", std::strerror(errno));
    const int device = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
    require(device >= 0, "/dev/udmabuf: {}", std::strerror(errno));
    udmabuf_create create{};
    create.memfd = static_cast<uint32_t>(memfd_);
    create.flags = UDMABUF_FLAGS_CLOEXEC;
    create.size = size;
    fd_ = ioctl(device, UDMABUF_CREATE, &create);
    close(device);
    require(fd_ >= 0, "UDMABUF_CREATE: {}", std::strerror(errno));
}

Udmabuf::~Udmabuf()
{
    close_all();
    munmap(data_, size_);
}

void Udmabuf::close_all()
{
    if (fd_ >= 0) {
        close(fd_);
        close(memfd_);
    }
    fd_ = -1;
}

void Udmabuf::sync(uint64_t flags) const
{
    dma_buf_sync sync{flags | DMA_BUF_SYNC_RW};
    require(!ioctl(fd_, DMA_BUF_IOCTL_SYNC, &sync), "DMA_BUF_IOCTL_SYNC: {}", std::strerror(errno));
}

} // namespace rocev2::test
