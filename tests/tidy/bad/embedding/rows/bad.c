/* bad.c: climbs to a room above, opens a third party's header, asks for the time,
 * starts a program past the door, is unfinished. */
#include "embedding/engine.h"
#include <zmq.h>

void bad(void)
{
    clock_gettime(0, 0); /* TODO */
    popen("date", "r");
}
