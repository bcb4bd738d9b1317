// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* GSO has a header of its own */
#include <net/gso.h>

int probe;
