// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The device's side of a split virtqueue: Virtual I/O Device 1.2, section 2.7. All of it lies in the guest's memory. */
#pragma once

#include "memory.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace cx {

class Vring {
public:
    /** A buffer: what the device reads comes first, then what it writes. */
    struct Chain {
        struct Part {
            std::uint64_t address;
            std::uint32_t size;
        };
        std::uint16_t head = 0;
        std::vector<Part> readable, writable;
    };

    /** `num`: entries, a power of two up to 32768. False: it is none. Only while stopped. */
    bool SetSize(std::uint32_t num);
    /** Guest addresses; aligned as the specification asks. False: they are not. Only while stopped. */
    bool SetAddresses(std::uint64_t descriptors, std::uint64_t available, std::uint64_t used);
    void SetBase(std::uint16_t index);
    /** The next available entry to look at: what the ring goes on with when it is set up anew. */
    std::uint16_t Base() const
    {
        return next_available_;
    }
    bool Ready() const
    {
        return num_ != 0 && placed_;
    }

    /**
     * The next buffer that the driver has made available; nothing if there is none, or the ring is broken: Error() says
     * so then, for as long as the ring lives.
     */
    std::optional<Chain> Pop(const GuestMemory &memory);
    /** Give a buffer back, `written` bytes of which are filled. */
    void Push(const GuestMemory &memory, const Chain &chain, std::uint32_t written);
    /** Whether the driver wants to be called after Push(). */
    bool CallWanted(const GuestMemory &memory) const;

    std::string_view Error() const
    {
        return error_;
    }

private:
    std::optional<Chain> Fail(std::string_view error);

    std::uint32_t num_ = 0;
    bool placed_ = false;
    std::uint64_t descriptors_ = 0, available_ = 0, used_ = 0;
    std::uint16_t next_available_ = 0, next_used_ = 0;
    std::string_view error_;
};

/** Bytes of a chain's readable parts, at most `limit`; nothing if an address is bad or there are more. */
std::optional<std::vector<std::byte>> Gather(const GuestMemory &memory, const Vring::Chain &chain, std::size_t limit);
/** Into a chain's writable parts; bytes written, fewer if they are full or an address is bad. */
std::uint32_t Scatter(const GuestMemory &memory, const Vring::Chain &chain, std::span<const std::byte> from);

} // namespace cx
