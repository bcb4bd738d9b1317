// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The cache of everything that takes long to make. */
#include "cache.h"

#include "log.h"
#include "process.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace rig {

namespace {

class FileLock {
public:
    explicit FileLock(const fs::path &path) : fd_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644))
    {
        if (fd_ < 0)
            Fail("cannot open {}: {}", path.string(), std::strerror(errno));
        if (flock(fd_, LOCK_EX | LOCK_NB) == 0)
            return;
        Note("waiting for another run that holds {}", path.string());
        while (flock(fd_, LOCK_EX) != 0)
            if (errno != EINTR)
                Fail("cannot lock {}: {}", path.string(), std::strerror(errno));
    }
    ~FileLock() { close(fd_); }
    FileLock(const FileLock &) = delete;
    FileLock &operator=(const FileLock &) = delete;

private:
    int fd_;
};

} // namespace

fs::path CacheDirectory()
{
    static const fs::path directory = [] {
        const char *xdg = std::getenv("XDG_CACHE_HOME");
        const char *home = std::getenv("HOME");

        if (xdg && *xdg)
            return fs::path(xdg) / "rocev2";
        if (!home || !*home)
            Fail("neither XDG_CACHE_HOME nor HOME is set; set one, the rig keeps its cache there");
        return fs::path(home) / ".cache" / "rocev2";
    }();
    return directory;
}

Key &Key::Add(std::string_view text)
{
    const auto mix = [this](unsigned char byte) {
        hash_ ^= byte;
        hash_ *= 0x100000001b3U;
    };

    for (const char c : text)
        mix(static_cast<unsigned char>(c));
    mix(0); /* "ab","c" is not "a","bc" */
    return *this;
}

Key &Key::AddFile(const fs::path &file)
{
    return Add(file.filename().string()).Add(ReadFile(file));
}

std::string Key::Hex() const
{
    return fmt::format("{:012x}", hash_ & 0xffffffffffffU);
}

fs::path CacheItem(const std::string &name, const Key &key, const std::function<void(const fs::path &)> &make)
{
    const fs::path item = CacheDirectory() / (name + "-" + key.Hex());

    if (fs::exists(item))
        return item;
    fs::create_directories(CacheDirectory());
    const FileLock lock(CacheDirectory() / ("." + name + ".lock"));

    if (fs::exists(item))
        return item;
    Note("{} is not cached yet; making {}", name, item.string());
    fs::path temporary = item;
    temporary += ".tmp";
    fs::remove_all(temporary);
    fs::create_directories(temporary);
    make(temporary);
    fs::rename(temporary, item);
    return item;
}

} // namespace rig
