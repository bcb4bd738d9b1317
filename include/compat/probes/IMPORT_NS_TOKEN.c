// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* MODULE_IMPORT_NS() takes a word, not a string */
#include <linux/module.h>

MODULE_IMPORT_NS(NO_SUCH_IDENTIFIER);
