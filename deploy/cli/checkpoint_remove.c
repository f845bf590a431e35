/* checkpoint_remove.c: `shoal checkpoint remove`: the coordinator removes a checkpoint once no
 * process reads it. */
#include "deploy/cli/checkpoint.h"
#include "deploy/cli/local_inner.h"
#include "proto/base/text.h"

#include <stdio.h>
#include <string.h>

int checkpoint_remove_main(struct option_line *o, struct err *e)
{
    static struct local l = {.io_threads = 1, .restart = true, .quiet = true};
    struct wire w = {.type = WIRE_TYPE_CHECKPOINT_REMOVE}, reply;
    char endpoint[COORDINATORS_LIST];
    if (o->words != 1)
        return err_set(e, SHOAL_E_USAGE, "name a checkpoint; see `shoal checkpoint remove --help`");
    if (!manifest_name_ok(o->word[0]))
        return err_set(
            e, SHOAL_E_USAGE,
            "'%.200s' is no name of a checkpoint: say the name alone, as `shoal checkpoint "
            "list` prints it, without the folder before it",
            o->word[0]);
    int rc = checkpoint_space(o, w.u.CHECKPOINT_REMOVE.space, e);
    if (rc == 0)
        rc = checkpoint_endpoint(o, &l, endpoint, e);
    if (rc == 0) {
        text_copy(w.u.CHECKPOINT_REMOVE.name, LIMIT_NAME, o->word[0]);
        rc = checkpoint_order(&l, endpoint, "shoal checkpoint remove", &w, &reply, e);
    }
    if (rc == 0)
        printf("%s is removed\n", reply.u.CHECKPOINT_REMOVE_reply.path);
    cli_ask_close(l.ask);
    local_stop(&l);
    local_scratch_remove(&l, rc == SHOAL_E_UNAVAILABLE);
    return rc;
}
