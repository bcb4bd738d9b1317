// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The kernel's fastest CRC-32. From 6.14 on that is crc32_le() itself; before, it
 * is a table walk, and the crypto layer's "crc32" has the carry-less multiply.
 */
#include <linux/crc32.h>
#include <linux/err.h>

#include "crc.h"
#include "icrc.h"

#ifdef ROCEV2_CRC32_LIB

int rocev2_crc_init(void)
{
	return 0;
}

void rocev2_crc_exit(void)
{
}

u32 rocev2_crc32(u32 crc, const void *data, size_t len)
{
	return crc32_le(crc, data, len);
}

#else

#include <crypto/hash.h>

static struct crypto_shash *tfm;

/* Return: 0 always; without the crypto algorithm the library serves */
int rocev2_crc_init(void)
{
	tfm = crypto_alloc_shash("crc32", 0, 0);
	if (IS_ERR(tfm))
		tfm = NULL;
	return 0;
}

void rocev2_crc_exit(void)
{
	if (tfm)
		crypto_free_shash(tfm);
}

u32 rocev2_crc32(u32 crc, const void *data, size_t len)
{
	/* short runs (headers) do not pay for saving the vector registers */
	if (!tfm || len < 64)
		return crc32_le(crc, data, len);
	{
		SHASH_DESC_ON_STACK(desc, tfm);
		u32 *state = shash_desc_ctx(desc);

		desc->tfm = tfm;
		*state = crc;
		if (crypto_shash_update(desc, data, len))
			return crc32_le(crc, data, len);
		return *state;
	}
}

#endif
