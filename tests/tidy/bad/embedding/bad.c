/* bad.c: breaks the rules on purpose: the negative control of tidy.py. */
#include "server/bad.h"
#include <zmq.h>

void bad(void)
{
    clock_gettime(0, 0); /* TODO */
}
