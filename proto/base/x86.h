/* x86.h: SHOAL_X86 is defined where code may use instructions of x86-64 that it looks for at run
 * time. All that does so has a portable form beside it, which gives the same bits: other processors
 * use that form, and on x86-64 a build with SHOAL_PORTABLE does, for tests. */
#ifndef PROTO_BASE_X86_H
#define PROTO_BASE_X86_H

#if defined(__x86_64__) && !defined(SHOAL_PORTABLE)
#define SHOAL_X86
#endif

#endif
