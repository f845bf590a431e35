/* doctor_keys.c: checks of keys and of lists of keys. */
#include "deploy/cli/doctor.h"
#include "proto/base/file.h"
#include "proto/base/text.h"
#include "proto/job/signature.h"
#include "proto/net/keyfile.h"
#include "proto/net/keylist.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LIST_BYTES_MAX ((size_t)1 << 20)

static void list_look(struct doctor_report *r, const char *path)
{
    struct keylist *list = NULL;
    struct stat st;
    struct err e;
    char *text;
    size_t bytes;
    if (file_read_whole(path, LIST_BYTES_MAX, &text, &bytes) != 0) {
        doctor_wrong(r,
                     "allow: %s cannot be read: %s; make it (a line of shoal keygen for each "
                     "daemon and person), or correct allow",
                     path, strerror(errno));
        return;
    }
    int rc = keylist_parse(text, bytes, path, &list, &e);
    free(text);
    if (rc != 0)
        doctor_wrong(r, "allow: %s; correct that line", e.text);
    else if (stat(path, &st) == 0 && (st.st_mode & S_IWOTH) != 0)
        doctor_wrong(
            r,
            "allow: %s has mode %04o, so any user can let keys in: chmod 0644 %s, and look "
            "through its lines",
            path, (unsigned)(st.st_mode & 07777), path);
    else
        doctor_fine(r, "allow: %u keys", list->count);
    keylist_free(list);
}

static void signers_look(struct doctor_report *r, const char *path)
{
    struct signature_signers *signers = NULL;
    struct err e;
    if (signature_signers_read(path, &signers, &e) != 0)
        doctor_wrong(r, "checkpoint_signers: %s%s", e.text,
                     text_if(e.code == SHOAL_E_NOINPUT,
                             "; make it (the line of shoal keygen FILE --role sign for each "
                             "signer), or correct checkpoint_signers"));
    else
        doctor_fine(r, "checkpoint_signers: %s can be read", path);
    signature_signers_free(signers);
}

/* The keys that units are handed. A user that may not look into their folder sees none. */
static void unit_keys_look(const struct doctor_host *h, struct doctor_report *r)
{
    char folder[DOCTOR_PATH], path[DOCTOR_PATH];
    struct file_walk w;
    const char *name;
    uint32_t wrong = r->problems, count = 0;
    (void)file_walk_open(&w, doctor_below(h, folder, "/etc/shoal/keys"));
    while ((name = file_walk_next(&w)) != NULL) {
        struct keyfile *keys = NULL;
        struct err e;
        size_t bytes = strlen(name);
        if (bytes < 5 || strcmp(name + bytes - 4, ".key") != 0)
            continue;
        count++;
        if (keyfile_load(doctor_join(path, folder, name), &keys, &e) == SHOAL_E_DENIED)
            doctor_wrong(r, "%s", e.text);
        keyfile_free(keys);
    }
    file_walk_close(&w);
    if (count > 0 && r->problems == wrong)
        doctor_fine(r, "%u keys in %s are their owners' alone", count, folder);
}

/* The advice on a file that cannot be opened; "": its text says it. */
static const char *advice_of(const char *path)
{
    if (access(path, R_OK) == 0)
        return "";
    if (errno == EACCES)
        return "; run shoal doctor as the daemon's user or as root; if the daemon says it too, "
               "give the file to its user (chown)";
    return "; make it (shoal keygen), or correct keys";
}

void doctor_check_keys(const struct doctor_host *h, struct doctor_report *r)
{
    const struct doctor_settings *s = h->settings;
    struct keyfile *keys = NULL;
    struct err e;
    if (s->keys[0] != '\0') {
        if (keyfile_load(s->keys, &keys, &e) != 0)
            doctor_wrong(r, "keys: %s%s", e.text, advice_of(s->keys));
        else
            doctor_fine(r, "keys: %s is this user's alone", s->keys);
        keyfile_free(keys);
    } else
        unit_keys_look(h, r);
    if (s->allow[0] != '\0')
        list_look(r, s->allow);
    if (s->signers[0] != '\0')
        signers_look(r, s->signers);
}
