// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* the page pool's inlines have a header of their own */
#include <net/page_pool/helpers.h>

int probe;
