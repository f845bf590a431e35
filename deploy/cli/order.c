/* order.c: `shoal promote` and `shoal replace`: orders over the copies of a fleet's shards, and
 * over a server whose disk is lost. */
#include "deploy/cli/begin.h"
#include "deploy/cli/cli.h"
#include "proto/base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ORDER_MS = 30000 };

/* "12" */
static bool shard_take(const char *word, uint32_t *shard)
{
    size_t digits = strspn(word, "0123456789");
    *shard = (uint32_t)strtoul(word, NULL, 10);
    return digits > 0 && digits < 6 && word[digits] == 0 && *shard < LIMIT_SHARDS;
}

int cli_promote(struct option_line *o, struct err *e)
{
    struct wire w = {.type = WIRE_TYPE_PROMOTE}, reply;
    uint32_t shard = 0;
    if (o->words != 1 || !shard_take(o->word[0], &shard))
        return err_set(e, SHOAL_E_USAGE,
                       "name the number of a shard, as `shoal status` shows it; see `shoal promote "
                       "--help`");
    w.u.PROMOTE.shard = shard;
    w.u.PROMOTE.accept_loss = option_given(o, "accept-loss");
    int rc = cli_coordinator_ask(o, &w, ORDER_MS, 0, &reply, NULL, e);
    if (rc != 0)
        return rc;
    puts(reply.u.PROMOTE_reply.told);
    if (!w.u.PROMOTE.accept_loss)
        puts("nothing has changed: with --accept-loss it leads");
    return 0;
}

int cli_replace(struct option_line *o, struct err *e)
{
    struct wire w = {.type = WIRE_TYPE_REPLACE}, reply;
    struct begin from = {.path = ""};
    int rc = 0;
    if (o->words != 1 || o->word[0][0] == 0 || strlen(o->word[0]) >= sizeof w.u.REPLACE.server)
        return err_set(e, SHOAL_E_USAGE,
                       "name a SERVER, as `shoal status` shows it; see `shoal replace --help`");
    text_copy(w.u.REPLACE.server, sizeof w.u.REPLACE.server, o->word[0]);
    if (option_given(o, "from"))
        rc = begin_find(option_text(o, "from"), false, &from, e);
    memcpy(w.u.REPLACE.from, from.path, sizeof w.u.REPLACE.from);
    if (rc == 0)
        rc = cli_coordinator_ask(o, &w, ORDER_MS, 0, &reply, NULL, e);
    if (rc == 0)
        puts(reply.u.REPLACE_reply.told);
    return rc;
}
