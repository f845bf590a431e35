/* hold.c: locks a folder. Two commands in one folder would overwrite or remove each other's
 * files. */
#include "deploy/cli/hold.h"
#include "proto/base/lockfile.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

int hold_take(const char *dir, uint32_t wait_ms, int *fd, struct err *e)
{
    int taken = lockfile_take(dir, wait_ms);
    if (fd != NULL)
        *fd = taken;
    if (taken >= 0)
        return 0;
    switch (errno) {
    case EWOULDBLOCK:
        return err_set(e, SHOAL_E_CANTCREATE,
                       "%s is in use by another shoal command: wait for its end, or name another "
                       "folder",
                       dir);
    case EINTR:
        return err_set(e, SHOAL_E_STOPPED, "stopped while another shoal command used %s", dir);
    default:
        return err_set(e, SHOAL_E_CANTCREATE,
                       "cannot lock %s/lock: %s; the folder must be writable for this user", dir,
                       strerror(errno));
    }
}
