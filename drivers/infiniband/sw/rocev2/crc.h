/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The CRC-32 engine behind rocev2_crc32() (icrc.h). */
#ifndef ROCEV2_CRC_H
#define ROCEV2_CRC_H

int rocev2_crc_init(void);
void rocev2_crc_exit(void);

#endif
