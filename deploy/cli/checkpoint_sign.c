/* checkpoint_sign.c: `shoal checkpoint sign`, and the check of a signature by `verify`. */
#include "deploy/cli/checkpoint.h"
#include "embedding/checkpoint.h"
#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/secret.h"
#include "proto/job/signature.h"
#include "proto/net/keyfile.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The files of a checkpoint that the coordinator reads, beside the manifests of the parts. The
 * first one has the hashes of the others. */
static const char *const own[] = {MANIFEST_FILE, MANIFEST_STATE_FILE, MANIFEST_JOB_FILE};

/* ---- verify ---------------------------------------------------------------------------------- */

int checkpoint_signed_check(const char *folder, const char *signers, struct err *e)
{
    struct signature *s = NULL;
    int rc = signature_open(folder, signers, &s, e);
    for (size_t i = 0; rc == 0 && i < sizeof own / sizeof *own; i++)
        rc = signature_check_file(s, own[i], e);
    signature_free(s);
    return rc;
}

int checkpoint_signed_say(const char *folder, bool checked, struct err *e)
{
    char path[2 * LIMIT_PATH], key[SIGNATURE_KEY];
    struct signature *s = NULL;
    (void)snprintf(path, sizeof path, "%s/" SIGNATURE_FILE, folder);
    if (!checked && access(path, F_OK) != 0 && errno == ENOENT) {
        printf("it is not signed\n");
        return 0;
    }
    int rc = signature_open(folder, NULL, &s, e);
    if (rc != 0)
        return rc;
    signature_key(s, key);
    printf("signed by %s: %u files%s\n", key, signature_files(s),
           checked ? ", as they are" : "; whether they are as they were, --signers FILE says");
    signature_free(s);
    return 0;
}

/* ---- sign ------------------------------------------------------------------------------------ */

struct key_names {
    char (*name)[SIGNATURE_NAME]; /* owned (count) */
    uint32_t count, capacity;
};

static int name_add(void *context, const char *name, struct err *e)
{
    struct key_names *n = context;
    if (array_room(&n->name, n->count, &n->capacity, 64) != 0)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    SHOAL_ASSERT(strlen(name) < SIGNATURE_NAME); /* names in part.h are shorter */
    memcpy(n->name[n->count++], name, strlen(name) + 1);
    return 0;
}

static int key_names_take(const char *folder, struct key_names *n, struct err *e)
{
    struct checkpoint *c = NULL;
    int rc = checkpoint_open(folder, NULL, &c, e);
    for (size_t i = 1; rc == 0 && i < sizeof own / sizeof *own; i++)
        rc = name_add(n, own[i], e);
    if (rc == 0)
        rc = checkpoint_files(c, name_add, n, e);
    checkpoint_close(c);
    return rc;
}

int checkpoint_sign_main(struct option_line *o, struct err *e)
{
    struct key_names n = {.count = 0};
    uint8_t *seed = NULL;
    if (o->words != 1 || option_text(o, "key") == NULL)
        return err_set(e, SHOAL_E_USAGE,
                       "name the checkpoint's folder and --key FILE; see `shoal checkpoint sign "
                       "--help`");
    int rc = keyfile_signer_load(option_text(o, "key"), &seed, e);
    if (rc == 0) /* a damaged checkpoint gets no signature, which would hide the damage */
        rc = checkpoint_whole(o->word[0], NULL, e);
    if (rc == 0)
        rc = key_names_take(o->word[0], &n, e);
    if (rc == 0)
        rc = signature_write(o->word[0], n.name, n.count, seed, e);
    if (rc == 0)
        rc = checkpoint_signed_say(o->word[0], true, e);
    secret_free(seed);
    free(n.name);
    return rc;
}
