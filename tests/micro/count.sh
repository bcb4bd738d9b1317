#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# count.sh MICRO DUMPS: has callgrind count what MICRO does, into the file DUMPS. Without an environment,
# whose length would move the stack.
set -e
rm -f "$2"
exec env -i PATH="$PATH" valgrind -q --tool=callgrind --combine-dumps=yes --callgrind-out-file="$2" "$1" --count
