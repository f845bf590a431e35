/* x86.h: SHOAL_X86 is defined where code may use x86-64 instructions that it detects at run time.
 * Such code has a portable form beside it, which gives the same bits. Other processors use the
 * portable form, and so does x86-64 in a build with SHOAL_PORTABLE, for tests. */
#ifndef PROTO_BASE_X86_H
#define PROTO_BASE_X86_H

#if defined(__x86_64__) && !defined(SHOAL_PORTABLE)
#define SHOAL_X86
#endif

#endif
