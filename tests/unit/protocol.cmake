# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# The module's pure protocol files as a library, unchanged, with the headers of shim/ in place of
# the kernel's. Who links it brings rocev2_crc32(), the CRC engine (icrc.h).
set(DRIVER ${CMAKE_CURRENT_LIST_DIR}/../../drivers/infiniband/sw/rocev2)

add_library(protocol STATIC
    ${DRIVER}/opcode.c
    ${DRIVER}/icrc.c
    ${DRIVER}/mr_cache.c
    ${DRIVER}/qp_state.c)
target_compile_options(protocol PRIVATE -Wno-sign-compare)
# SYSTEM: kernel headers convert more freely than -Wconversion of the C++ tests allows
target_include_directories(protocol SYSTEM PUBLIC ${DRIVER})
target_include_directories(protocol BEFORE PUBLIC ${CMAKE_CURRENT_LIST_DIR}/shim)
