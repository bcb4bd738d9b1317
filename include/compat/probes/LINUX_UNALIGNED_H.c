// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* unaligned access moved out of asm/ */
#include <linux/unaligned.h>

int probe;
