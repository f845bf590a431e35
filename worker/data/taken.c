/* taken.c: one number for the process. */
#include "worker/data/taken.h"

static _Atomic uint64_t taken;

void taken_note(uint64_t bytes)
{
    taken += bytes;
}

uint64_t taken_bytes(void)
{
    return taken;
}
