// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The cache of everything that takes long to make: Debian roots, kernels.
 * An item is a directory named after what it is and a hash of what it is made
 * from; it is built beside its place and renamed into it, so what is there is
 * whole.
 */
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace rig {

namespace fs = std::filesystem;

/* ${XDG_CACHE_HOME:-$HOME/.cache}/rocev2 */
fs::path CacheDirectory();

/* FNV-1a over all that an item is made from. */
class Key {
public:
    Key &Add(std::string_view text);
    Key &AddFile(const fs::path &file);
    std::string Hex() const;

private:
    std::uint64_t hash_ = 0xcbf29ce484222325U;
};

/* The item's directory, made by `make(temporary directory)` when it is absent. Two programs wanting
 * the same item at once make it once. */
fs::path CacheItem(const std::string &name, const Key &key, const std::function<void(const fs::path &)> &make);

} // namespace rig
