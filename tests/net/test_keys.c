/* test_keys.c: key files, lists of keys, and the peers that a real socket lets in. */
#include "proto/base/container_of.h"
#include "proto/base/file.h"
#include "proto/base/secret.h"
#include "proto/net/keyfile.h"
#include "proto/net/keylist.h"
#include "proto/net/net.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

static char folder[64];

static const char *in(const char *name)
{
    static char path[4][256];
    static int turn;
    turn = (turn + 1) % 4;
    (void)snprintf(path[turn], sizeof path[0], "%s/%s", folder, name);
    return path[turn];
}

static void setup(void)
{
    (void)snprintf(folder, sizeof folder, "/tmp/shoal-keys-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    unsetenv("CREDENTIALS_DIRECTORY");
}

static void teardown(void)
{
    (void)file_remove_tree(folder);
}

static struct keyfile *key_new(const char *name, const char *pinned)
{
    char pub[KEYFILE_KEY];
    struct keyfile *k;
    struct err e = {0};
    ck_assert_msg(keyfile_make(in(name), pinned, pub, &e) == 0, "%s", e.text);
    ck_assert_msg(keyfile_load(in(name), &k, &e) == 0, "%s", e.text);
    ck_assert_str_eq(k->pub, pub);
    return k;
}

/* ---- files ----------------------------------------------------------------------------------- */

START_TEST(keys_are_made_once)
{
    char pub[KEYFILE_KEY];
    struct err e = {0};
    struct stat st;
    struct keyfile *first = key_new("a", NULL), *second = key_new("b", in("a.pub"));
    ck_assert_int_eq(stat(in("a"), &st), 0);
    ck_assert_int_eq(st.st_mode & 07777, 0400);
    ck_assert_str_eq(second->coordinator[0], first->pub);
    ck_assert_str_ne(second->secret, first->secret);
    ck_assert_int_eq(keyfile_make(in("a"), NULL, pub, &e), SHOAL_E_EXISTS);
    ck_assert_int_eq(unlink(in("a")), 0);
    ck_assert_int_eq(keyfile_make(in("a"), NULL, pub, &e), SHOAL_E_EXISTS); /* a.pub exists */
    ck_assert_int_ne(access(in("a"), F_OK), 0); /* no half of a pair is left */
    keyfile_free(first);
    keyfile_free(second);
}
END_TEST

START_TEST(keys_with_loose_modes_are_refused)
{
    static const struct {
        mode_t mode;
        int plain, credential;
    } cases[] = {{0400, 0, 0},
                 {0600, 0, 0},
                 {0440, SHOAL_E_DENIED, 0}, /* as with an access list */
                 {0640, SHOAL_E_DENIED, 0},
                 {0404, SHOAL_E_DENIED, SHOAL_E_DENIED},
                 {0644, SHOAL_E_DENIED, SHOAL_E_DENIED},
                 {0420, SHOAL_E_DENIED, SHOAL_E_DENIED},
                 {0602, SHOAL_E_DENIED, SHOAL_E_DENIED}};
    keyfile_free(key_new("shoal.key", NULL));
    for (int credential = 0; credential < 2; credential++) {
        if (credential)
            setenv("CREDENTIALS_DIRECTORY", folder, 1);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            struct keyfile *k = NULL;
            struct err e = {0};
            ck_assert_int_eq(chmod(in("shoal.key"), cases[i].mode), 0);
            int rc =
                credential ? keyfile_find(NULL, &k, &e) : keyfile_load(in("shoal.key"), &k, &e);
            ck_assert_msg(rc == (credential ? cases[i].credential : cases[i].plain), "%04o: %d %s",
                          cases[i].mode, rc, e.text);
            ck_assert(rc == 0 || strstr(e.text, "chmod 0400") != NULL);
            if (rc == 0)
                keyfile_free(k);
        }
    }
    if (geteuid() == 0) {
        struct keyfile *k;
        struct err e = {0};
        ck_assert_int_eq(chmod(in("shoal.key"), 0400), 0);
        ck_assert_int_eq(chown(in("shoal.key"), 12345, 0), 0);
        ck_assert_int_eq(keyfile_load(in("shoal.key"), &k, &e), SHOAL_E_DENIED);
    }
}
END_TEST

static void signer_refused(const char *text, int status, const char *says)
{
    uint8_t *seed = NULL;
    struct err e = {0};
    (void)unlink(in("s"));
    FILE *file = fopen(in("s"), "w");
    ck_assert(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0 &&
              chmod(in("s"), 0400) == 0);
    ck_assert_int_eq(keyfile_signer_load(in("s"), &seed, &e), status);
    ck_assert_ptr_null(seed);
    ck_assert_msg(strstr(e.text, says) != NULL, "%s", e.text);
}

START_TEST(keys_that_sign_are_files_of_their_own)
{
    char pub[KEYFILE_SIGNER], other[KEYFILE_SIGNER], hex[2 * SIGN_SEED + 1], text[256];
    uint8_t *seed = NULL, key[SIGN_KEY];
    struct keyfile *k = NULL;
    struct err e = {0};
    struct stat st;
    ck_assert_msg(keyfile_signer_make(in("a"), pub, &e) == 0, "%s", e.text);
    ck_assert_int_eq(keyfile_signer_make(in("a"), other, &e), SHOAL_E_EXISTS);
    ck_assert_int_eq(keyfile_signer_make(in("b"), other, &e), 0);
    ck_assert_str_ne(pub, other);
    ck_assert(stat(in("a"), &st) == 0 && (st.st_mode & 07777) == 0400);
    ck_assert_msg(keyfile_signer_load(in("a"), &seed, &e) == 0, "%s", e.text);
    ck_assert(sign_key_of(seed, key) == 0);
    sign_hex(key, SIGN_KEY, hex);
    ck_assert_str_eq(hex, pub);
    sign_hex(seed, SIGN_SEED, hex);
    secret_free(seed);
    seed = NULL;
    ck_assert_int_eq(keyfile_load(in("a"), &k, &e), SHOAL_E_CONFIG); /* no key of CURVE */
    keyfile_free(key_new("curve", NULL));
    ck_assert_int_eq(keyfile_signer_load(in("curve"), &seed, &e), SHOAL_E_CONFIG);
    ck_assert_msg(strstr(e.text, "sign-public, sign-secret") != NULL, "%s", e.text);
    ck_assert_int_eq(chmod(in("a"), 0440), 0);
    ck_assert_int_eq(keyfile_signer_load(in("a"), &seed, &e), SHOAL_E_DENIED);
    (void)snprintf(text, sizeof text, "sign-public %s\nsign-secret %s\n", other, hex);
    signer_refused(text, SHOAL_E_CONFIG, "do not fit each other");
    (void)snprintf(text, sizeof text, "sign-public %s\n", pub);
    signer_refused(text, SHOAL_E_CONFIG, "holds no key that signs");
    (void)snprintf(text, sizeof text, "sign-secret %s0\n", hex);
    signer_refused(text, SHOAL_E_CONFIG, "no key of 64 characters");
    signer_refused("", SHOAL_E_CONFIG, "holds no key that signs");
}
END_TEST

START_TEST(keys_are_found_where_they_are_named)
{
    struct keyfile *k;
    struct err e = {0};
    ck_assert_int_eq(keyfile_find(NULL, &k, &e), 0);
    ck_assert_ptr_null(k); /* nowhere */
    setenv("CREDENTIALS_DIRECTORY", folder, 1);
    ck_assert_int_eq(keyfile_find("", &k, &e), 0);
    ck_assert_ptr_null(k); /* not there */
    FILE *file = fopen(in("shoal.key"), "w");
    ck_assert_int_ge(fputs("none\n", file), 0);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_int_eq(chmod(in("shoal.key"), 0440), 0);
    ck_assert_int_eq(keyfile_find(NULL, &k, &e), 0);
    ck_assert_ptr_null(k); /* so a unit says: no key */
    unsetenv("CREDENTIALS_DIRECTORY");
    ck_assert_int_eq(chmod(in("shoal.key"), 0400), 0);
    ck_assert_int_eq(keyfile_find(in("shoal.key"), &k, &e), SHOAL_E_CONFIG); /* named: a key */
    ck_assert_int_eq(keyfile_find(in("none"), &k, &e), SHOAL_E_NOINPUT);
    ck_assert_int_eq(mkdir(in("folder"), 0700), 0);
    ck_assert_int_eq(keyfile_find(in("folder"), &k, &e), SHOAL_E_DENIED);
}
END_TEST

/* A key file is short: a longer one is no key file, and no part of it is used. */
START_TEST(keys_in_long_files_are_refused)
{
    struct keyfile *a = key_new("a", NULL), *k;
    for (size_t bytes = 4094; bytes < 4097; bytes++) {
        struct err e = {0};
        FILE *f = fopen(in("long"), "w");
        int n = fprintf(f, "public %s\nsecret %s\n#", a->pub, a->secret);
        for (size_t i = (size_t)n; i < bytes; i++)
            fputc('x', f);
        fclose(f);
        ck_assert_int_eq(chmod(in("long"), 0400), 0);
        ck_assert_int_eq(keyfile_load(in("long"), &k, &e), bytes == 4094 ? 0 : SHOAL_E_CONFIG);
        if (bytes == 4094)
            keyfile_free(k);
        ck_assert_int_eq(unlink(in("long")), 0);
    }
    keyfile_free(a);
}
END_TEST

/* systemd lets the group read the credentials that it passes. A file beside their folder must not
 * be readable by a group. */
START_TEST(keys_beside_the_credentials_are_none)
{
    struct err e = {0};
    struct keyfile *k;
    ck_assert_int_eq(mkdir(in("given"), 0700), 0);
    keyfile_free(key_new("given/a", NULL));
    keyfile_free(key_new("given-a", NULL));
    ck_assert_int_eq(chmod(in("given/a"), 0440), 0);
    ck_assert_int_eq(chmod(in("given-a"), 0440), 0);
    setenv("CREDENTIALS_DIRECTORY", in("given"), 1);
    ck_assert_msg(keyfile_load(in("given/a"), &k, &e) == 0, "%s", e.text);
    keyfile_free(k);
    ck_assert_int_eq(keyfile_load(in("given-a"), &k, &e), SHOAL_E_DENIED);
}
END_TEST

START_TEST(keys_that_do_not_fit_are_refused)
{
    struct keyfile *a = key_new("a", NULL), *b = key_new("b", NULL);
    char text[6][512];
    (void)snprintf(text[0], 512, "public %s\nsecret %s\n", a->pub, b->secret);
    (void)snprintf(text[1], 512, "public %s\n", a->pub);
    (void)snprintf(text[2], 512, "public %s\nsecret %s\ncoordinator short\n", a->pub, a->secret);
    (void)snprintf(text[3], 512, "# nothing\n");
    (void)snprintf(text[4], 512, "pubic %s\nsecret %s\n", a->pub, a->secret);
    (void)snprintf(text[5], 512, "public %s\nsecret %s\ncoordinator %.40s\n", a->pub, a->secret,
                   "~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~");
    for (int i = 0; i < 6; i++) {
        struct keyfile *k;
        struct err e = {0};
        FILE *f = fopen(in("c"), "w");
        fputs(text[i], f);
        fclose(f);
        ck_assert_int_eq(chmod(in("c"), 0400), 0);
        ck_assert_int_eq(keyfile_load(in("c"), &k, &e), SHOAL_E_CONFIG);
        ck_assert_ptr_nonnull(strstr(e.text, in("c")));
        ck_assert_ptr_null(strstr(e.text, a->secret));
        ck_assert_int_eq(unlink(in("c")), 0);
    }
    keyfile_free(a);
    keyfile_free(b);
}
END_TEST

START_TEST(keys_pin_the_old_and_the_new_coordinator)
{
    struct keyfile *old = key_new("old", NULL), *next = key_new("next", NULL), *third,
                   *k = key_new("k", old->pub);
    struct err e;
    struct stat before, after;
    char both[2 * KEYFILE_KEY], three[3 * KEYFILE_KEY], pub[KEYFILE_KEY];
    ck_assert_str_eq(k->coordinator[1], "");
    (void)snprintf(both, sizeof both, "%s,%s", old->pub, next->pub);
    (void)snprintf(three, sizeof three, "%s,%s", both, old->pub);
    ck_assert_int_eq(stat(in("k"), &before), 0);
    ck_assert_int_eq(keyfile_pin(in("k"), three, &e), SHOAL_E_USAGE);
    ck_assert_int_eq(keyfile_pin(in("k"), "", &e), SHOAL_E_USAGE);
    for (int turn = 0; turn < 2; turn++) { /* repeated: no change */
        ck_assert_msg(keyfile_pin(in("k"), both, &e) == 0, "%s", e.text);
        ck_assert_int_eq(keyfile_load(in("k"), &third, &e), 0);
        ck_assert_str_eq(third->pub, k->pub); /* the key stays */
        ck_assert_str_eq(third->secret, k->secret);
        ck_assert_str_eq(third->coordinator[0], old->pub);
        ck_assert_str_eq(third->coordinator[1], next->pub);
        keyfile_free(third);
    }
    ck_assert_int_eq(stat(in("k"), &after), 0);
    ck_assert_uint_eq(after.st_mode, before.st_mode);
    ck_assert_uint_eq(after.st_uid, before.st_uid);
    ck_assert_int_eq(keyfile_pin(in("k"), in("next.pub"), &e), 0);
    ck_assert_int_eq(keyfile_load(in("k"), &third, &e), 0);
    ck_assert_str_eq(third->coordinator[0], next->pub);
    ck_assert_str_eq(third->coordinator[1], "");
    keyfile_free(third);
    /* A path that is as long as a key is a path. */
    char path[KEYFILE_KEY];
    (void)snprintf(path, sizeof path, "%.30s/", folder);
    memset(path + strlen(path), 'n', sizeof path - 1 - strlen(path));
    path[sizeof path - 1] = 0;
    ck_assert_int_eq(keyfile_pin(in("k"), path, &e), SHOAL_E_NOINPUT);
    ck_assert_int_eq(rename(in("next.pub"), path), 0);
    ck_assert_msg(keyfile_pin(in("k"), path, &e) == 0, "%s", e.text);
    ck_assert_int_eq(keyfile_load(in("k"), &third, &e), 0);
    ck_assert_str_eq(third->coordinator[0], next->pub);
    keyfile_free(third);
    ck_assert_int_eq(keyfile_pin(in("none"), both, &e), SHOAL_E_NOINPUT);
    ck_assert_int_eq(keyfile_make(in("made"), both, pub, &e), 0);
    keyfile_free(old);
    keyfile_free(next);
    keyfile_free(k);
}
END_TEST

/* ---- lists ----------------------------------------------------------------------------------- */

static int parse(const char *text, struct keylist **out, struct err *e)
{
    return keylist_parse(text, strlen(text), "list", out, e);
}

#define KEY_A "y-gb8IpsJp6#:l!UECs[LX2oGC-a<aArTxd)5^-z"
#define KEY_B "PiHv}[u:!/UEfVY8&&us%bp!#d+]%#9QKZ!tSn/i"

START_TEST(list_is_read)
{
    struct keylist *l;
    struct err e = {0};
    ck_assert_msg(
        parse("# who\n\n  " KEY_A "\tworker w1 # of rack 3\r\n" KEY_B " admin w1", &l, &e) == 0,
        "%s", e.text);
    ck_assert_uint_eq(l->count, 2);
    ck_assert_int_eq(keylist_find(l, KEY_A)->role, ROLE_WORKER);
    ck_assert_int_eq(keylist_find(l, KEY_B)->role, ROLE_ADMIN);
    ck_assert_str_eq(keylist_find(l, KEY_A)->name, "w1");
    ck_assert_ptr_null(keylist_find(l, ""));
    keylist_free(l);
}
END_TEST

/* Each bound, and one more. */
START_TEST(lists_have_their_bounds)
{
    char text[600], name[LIMIT_NAME + 1];
    struct keylist *l = NULL;
    struct err e = {0};
    for (uint32_t more = 0; more < 2; more++) {
        memset(name, 'n', LIMIT_NAME);
        name[LIMIT_NAME - 1 + more] = 0;
        (void)snprintf(text, sizeof text, KEY_A " worker %s\n", name);
        ck_assert_int_eq(parse(text, &l, &e), more ? SHOAL_E_CONFIG : 0);
        if (!more)
            ck_assert_str_eq(keylist_find(l, KEY_A)->name, name);
        if (!more)
            keylist_free(l);
        (void)snprintf(text, sizeof text, KEY_A " worker w1 #%*s\n",
                       (int)(255 + more - strlen(KEY_A " worker w1 #")), "");
        ck_assert_int_eq(parse(text, &l, &e), more ? SHOAL_E_CONFIG : 0);
        if (!more)
            keylist_free(l);
    }
    char *many = malloc((LIMIT_KEYS_LISTED + 1) * 64ul), *at = many;
    for (uint32_t i = 0; i <= LIMIT_KEYS_LISTED; i++) {
        uint8_t raw[32] = {0};
        char key[41];
        memcpy(raw, &(uint32_t){i * 2654435761u}, 4);
        ck_assert_ptr_nonnull(zmq_z85_encode(key, raw, sizeof raw));
        if (i == LIMIT_KEYS_LISTED) { /* the last one is not in the list yet */
            ck_assert_int_eq(keylist_parse(many, (size_t)(at - many), "list", &l, &e), 0);
            ck_assert_uint_eq(l->count, LIMIT_KEYS_LISTED);
            keylist_free(l);
        }
        at += sprintf(at, "%s worker w\n", key);
    }
    ck_assert_int_eq(keylist_parse(many, (size_t)(at - many), "list", &l, &e), SHOAL_E_CONFIG);
    free(many);
}
END_TEST

START_TEST(names_are_words_of_a_list)
{
    char name[LIMIT_NAME + 1];
    for (uint32_t more = 0; more < 2; more++) {
        memset(name, 'n', LIMIT_NAME);
        name[LIMIT_NAME - 1 + more] = 0;
        ck_assert(keylist_name_ok(name) == !more);
    }
    ck_assert(keylist_name_ok("rack-1.b_2"));
    for (const char *const *no =
             (const char *[]){"", "Ann Smith", "ann@x", "a\n", "\xc3\xa4", NULL};
         *no != NULL; no++)
        ck_assert_msg(!keylist_name_ok(*no), "%s", *no);
}
END_TEST

START_TEST(broken_lists_are_refused_with_their_line)
{
    static const struct {
        const char *text, *where;
    } bad[] = {{"", "lists no key"},
               {"#" KEY_A " worker w1\n", "lists no key"},
               {"\n" KEY_A "\n", "list:2"},
               {KEY_A " boss w1\n", "list:1"},
               {KEY_A " worker\n", "list:1"},
               {KEY_A " worker w/1\n", "list:1"},
               {KEY_A " worker w1 w2\n", "list:1"},
               {"x" KEY_A " worker w1\n", "list:1"},
               {"short worker w1\n", "list:1"},
               {KEY_A " worker w1\n" KEY_A " admin w2\n", "twice"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct keylist *l;
        struct err e = {0};
        ck_assert_msg(parse(bad[i].text, &l, &e) == SHOAL_E_CONFIG, "%zu was taken", i);
        ck_assert_msg(strstr(e.text, bad[i].where) != NULL, "%s", e.text);
    }
}
END_TEST

/* ---- peers that are let in ------------------------------------------------------------------- */

struct door { /* a server on its own thread, which records each sender */
    struct net *net;
    struct env *env;
    pthread_t thread;
    char bound[256];
    struct env_timer look;
    struct keylist *_Atomic next; /* the list that replaces the present one */
    _Atomic int role;             /* the last message's; -1: none yet */
    char name[LIMIT_NAME];
};

static void door_message(void *core, peer_t from, struct msg *m)
{
    struct door *d = core;
    const struct env_who *who = env_who(d->env, from);
    memcpy(d->name, who->name, sizeof d->name);
    d->role = who->role;
    (void)env_send(d->env, from, m);
}

static void drained(void *core)
{
    (void)core;
}

static void door_look(struct env_timer *t)
{
    struct door *d = container_of(t, struct door, look);
    struct keylist *next = atomic_exchange(&d->next, NULL);
    if (next != NULL)
        net_allow(d->net, next);
    env_timer_start(d->env, t, 1000000);
}

static void *door_run(void *arg)
{
    net_run(((struct door *)arg)->net);
    return NULL;
}

static void door_open(struct door *d, const struct keyfile *keys, const char *endpoint)
{
    static const struct env_handler handler = {door_message, drained, NULL};
    const struct net_options options = {.keys = keys, .insecure_plaintext = keys == NULL};
    struct err e = {0};
    *d = (struct door){.role = -1, .look = {.fire = door_look}};
    ck_assert_int_eq(net_new(&options, &d->net, &e), 0);
    d->env = net_env(d->net);
    ck_assert_msg(net_listen(d->net, endpoint, d->bound, &e) == 0, "%s", e.text);
    net_set_handler(d->net, &handler, d);
    env_timer_start(d->env, &d->look, 0);
    ck_assert_int_eq(pthread_create(&d->thread, NULL, door_run, d), 0);
}

static void door_allow(struct door *d, const char *text)
{
    struct keylist *l;
    struct err e = {0};
    ck_assert_msg(parse(text, &l, &e) == 0, "%s", e.text);
    d->next = l;
    while (d->next != NULL)
        usleep(1000);
}

static void door_close(struct door *d)
{
    net_interrupt(d->net);
    pthread_join(d->thread, NULL);
    net_free(d->net);
}

struct guest {
    struct net *net;
    struct env *env;
    peer_t to;
    struct env_timer guard;
    bool answered;
};

static void guest_message(void *core, peer_t from, struct msg *m)
{
    struct guest *g = core;
    (void)from;
    msg_free(m);
    g->answered = true;
    env_stop(g->env);
}

static void guest_over(struct env_timer *t)
{
    struct guest *g = container_of(t, struct guest, guard);
    env_stop(g->env);
}

static int guest_open(struct guest *g, const struct keyfile *keys, const char *endpoint,
                      const char *key)
{
    static const struct env_handler handler = {guest_message, drained, NULL};
    const struct net_options options = {.keys = keys};
    struct err e = {0};
    *g = (struct guest){.guard = {.fire = guest_over}};
    ck_assert_int_eq(net_new(&options, &g->net, &e), 0);
    g->env = net_env(g->net);
    net_set_handler(g->net, &handler, g);
    return env_connect(g->env, endpoint, key, &g->to);
}

/* True when an answer comes. */
static bool guest_asks(struct guest *g, unsigned ms)
{
    struct msg *m = msg_new();
    memset(msg_add(m, 100), 7, 100);
    g->answered = false;
    ck_assert_int_eq(env_send(g->env, g->to, m), 0);
    env_timer_start(g->env, &g->guard, ms * UINT64_C(1000000));
    net_run(g->net);
    env_timer_stop(g->env, &g->guard);
    return g->answered;
}

/* A client connects, asks once, and disconnects. */
static bool comes(const struct keyfile *keys, const char *endpoint, const char *key, unsigned ms)
{
    struct guest g;
    bool in_ = guest_open(&g, keys, endpoint, key) == 0 && guest_asks(&g, ms);
    net_free(g.net);
    return in_;
}

enum { SOON = 5000, NEVER = 400 };

START_TEST(net_keys_matrix)
{
    struct keyfile *server = key_new("server", NULL), *good = key_new("good", server->pub),
                   *other = key_new("other", server->pub), *lost = key_new("lost", other->pub);
    struct door d, plain;
    char list[512];
    door_open(&d, server, "tcp://127.0.0.1:0");
    door_open(&plain, NULL, "tcp://127.0.0.1:0");

    ck_assert(!comes(good, d.bound, ENV_COORDINATOR, NEVER)); /* there is no list yet */
    (void)snprintf(list, sizeof list, "%s worker w1\n", good->pub);
    door_allow(&d, list);
    ck_assert(comes(good, d.bound, ENV_COORDINATOR, SOON));
    ck_assert_int_eq(d.role, ROLE_WORKER);
    ck_assert_str_eq(d.name, "w1");
    ck_assert(comes(good, d.bound, server->pub, SOON));
    (void)usleep(NEVER * 1000); /* repeated questions are still arriving */
    d.role = -1;
    ck_assert(!comes(NULL, d.bound, ENV_COORDINATOR, NEVER));     /* plain against CURVE */
    ck_assert(!comes(other, d.bound, ENV_COORDINATOR, NEVER));    /* not listed */
    ck_assert(!comes(lost, d.bound, ENV_COORDINATOR, NEVER));     /* pins another's key */
    ck_assert(!comes(good, d.bound, other->pub, NEVER));          /* asks for another's key */
    ck_assert(!comes(good, d.bound, "", NEVER));                  /* knows none */
    ck_assert(!comes(server, d.bound, ENV_COORDINATOR, NEVER));   /* pins none */
    ck_assert(!comes(good, plain.bound, ENV_COORDINATOR, NEVER)); /* CURVE against plain */
    ck_assert_int_eq(plain.role, -1);
    ck_assert_int_eq(d.role, -1); /* none of them was heard */
    ck_assert(comes(NULL, plain.bound, ENV_COORDINATOR, SOON));
    ck_assert_int_eq(plain.role, ROLE_LOCAL);

    door_close(&d);
    door_close(&plain);
    keyfile_free(server);
    keyfile_free(good);
    keyfile_free(other);
    keyfile_free(lost);
}
END_TEST

START_TEST(net_who_was_refused_comes_in_when_listed)
{
    struct keyfile *server = key_new("server", NULL), *a = key_new("a", server->pub);
    struct door d;
    struct guest g;
    char list[256];
    door_open(&d, server, "tcp://127.0.0.1:0");
    ck_assert_int_eq(guest_open(&g, a, d.bound, ENV_COORDINATOR), 0);
    ck_assert(!guest_asks(&g, NEVER));
    (void)snprintf(list, sizeof list, "%s worker w1\n", server->pub);
    door_allow(&d, list);
    ck_assert(!guest_asks(&g, NEVER));
    (void)snprintf(list, sizeof list, "%s worker w1\n", a->pub);
    door_allow(&d, list);
    ck_assert(guest_asks(&g, SOON)); /* over the same connection */
    net_free(g.net);
    door_close(&d);
    keyfile_free(server);
    keyfile_free(a);
}
END_TEST

/* A new list applies to an open connection at once: its key changes its role, or loses it. */
START_TEST(net_another_list_counts_at_once)
{
    struct keyfile *server = key_new("server", NULL), *a = key_new("a", server->pub),
                   *b = key_new("b", server->pub);
    struct door d;
    struct guest g;
    char list[512];
    door_open(&d, server, "tcp://127.0.0.1:0");
    (void)snprintf(list, sizeof list, "%s worker w1\n%s serve s\n", a->pub, b->pub);
    door_allow(&d, list);
    ck_assert_int_eq(guest_open(&g, a, d.bound, ENV_COORDINATOR), 0);
    ck_assert(guest_asks(&g, SOON));
    ck_assert_int_eq(d.role, ROLE_WORKER);

    (void)snprintf(list, sizeof list, "%s metrics m\n%s serve s\n", a->pub, b->pub);
    door_allow(&d, list); /* it has another role */
    ck_assert(guest_asks(&g, SOON));
    ck_assert_int_eq(d.role, ROLE_METRICS);
    ck_assert_str_eq(d.name, "m");

    (void)snprintf(list, sizeof list, "%s serve s\n", b->pub);
    door_allow(&d, list);            /* it was removed */
    ck_assert(guest_asks(&g, SOON)); /* ZeroMQ cannot cut its connection */
    ck_assert_int_eq(d.role, ROLE_NOBODY);
    ck_assert(!comes(a, d.bound, ENV_COORDINATOR, NEVER));
    ck_assert(comes(b, d.bound, ENV_COORDINATOR, SOON));
    ck_assert_int_eq(d.role, ROLE_SERVE);

    net_free(g.net);
    door_close(&d);
    keyfile_free(server);
    keyfile_free(a);
    keyfile_free(b);
}
END_TEST

START_TEST(net_ipc_asks_nobody_for_keys)
{
    struct keyfile *server = key_new("server", NULL), *a = key_new("a", server->pub);
    struct door d;
    char endpoint[128];
    (void)snprintf(endpoint, sizeof endpoint, "ipc://%s", in("socket"));
    door_open(&d, server, endpoint);
    ck_assert(comes(NULL, d.bound, ENV_COORDINATOR, SOON));
    ck_assert_int_eq(d.role, ROLE_LOCAL);
    ck_assert(comes(a, d.bound, ENV_COORDINATOR, SOON));
    ck_assert_int_eq(d.role, ROLE_LOCAL);
    door_close(&d);
    keyfile_free(server);
    keyfile_free(a);
}
END_TEST

/* A process that listens later than at its start, by the calls of a core. */
START_TEST(net_core_listens_and_admits_while_it_runs)
{
    struct keyfile *own = key_new("own", NULL), *a = key_new("a", own->pub),
                   *b = key_new("b", own->pub);
    static const struct env_handler handler = {door_message, drained, NULL};
    const struct net_options options = {.keys = own, .connections_max = 8};
    struct door d = {.role = -1, .look = {.fire = door_look}}, taken;
    struct env_who who[] = {{.role = ROLE_WORKER, .name = "worker-3"},
                            {.role = ROLE_WORKER, .name = "worker-5"},
                            {.role = ROLE_WORKER, .name = "worker-7"}};
    struct err e = {0};
    char told[256];
    door_open(&taken, own, "tcp://127.0.0.1:0");
    ck_assert_int_eq(net_new(&options, &d.net, &e), 0);
    d.env = net_env(d.net);
    net_set_handler(d.net, &handler, &d);
    ck_assert_int_eq(env_listen(d.env, taken.bound, "", told, &e), SHOAL_E_UNAVAILABLE);
    ck_assert_msg(strstr(e.text, "is in use") != NULL, "%s", e.text);
    ck_assert_int_eq(env_listen(d.env, "7080", "", told, &e), SHOAL_E_CONFIG);
    ck_assert_msg(env_listen(d.env, "tcp://127.0.0.1:*", "host7", told, &e) == 0, "%s", e.text);
    ck_assert_int_eq(strncmp(told, "tcp://host7:", 12), 0);
    ck_assert_int_gt(atoi(told + 12), 1023);
    (void)snprintf(d.bound, sizeof d.bound, "tcp://127.0.0.1:%d", atoi(told + 12));
    env_timer_start(d.env, &d.look, 0);

    memcpy(who[0].key, a->pub, sizeof a->pub);
    memcpy(who[1].key, a->pub, sizeof a->pub); /* two workers with one key; one without */
    ck_assert_int_eq(env_admit(d.env, who, 3), 0);
    ck_assert_int_eq(pthread_create(&d.thread, NULL, door_run, &d), 0);
    ck_assert(comes(a, d.bound, own->pub, SOON));
    ck_assert_int_eq(d.role, ROLE_WORKER);
    ck_assert_str_eq(d.name, "worker-3");
    ck_assert(!comes(b, d.bound, own->pub, NEVER)); /* a key that the fleet has, but no member */
    ck_assert(!comes(NULL, d.bound, own->pub, NEVER));
    net_interrupt(d.net);
    pthread_join(d.thread, NULL);

    memcpy(who[0].key, b->pub, sizeof b->pub);
    ck_assert_int_eq(env_admit(d.env, who, 1), 0);
    ck_assert_int_eq(pthread_create(&d.thread, NULL, door_run, &d), 0);
    ck_assert(comes(b, d.bound, own->pub, SOON));
    ck_assert(!comes(a, d.bound, own->pub, NEVER));
    net_interrupt(d.net);
    pthread_join(d.thread, NULL);
    ck_assert_int_eq(env_admit(d.env, NULL, 0), 0);
    ck_assert_int_eq(pthread_create(&d.thread, NULL, door_run, &d), 0);
    ck_assert(!comes(b, d.bound, own->pub, NEVER));
    door_close(&d);
    door_close(&taken);
    keyfile_free(own);
    keyfile_free(a);
    keyfile_free(b);
}
END_TEST

/* The thread that answers key checks is removed: the sockets must not let every peer in. */
static bool silent;
int __real_zap_start(void *context, struct err *e);
int __wrap_zap_start(void *context, struct err *e);
int __wrap_zap_start(void *context, struct err *e)
{
    return silent ? 0 : __real_zap_start(context, e);
}

START_TEST(net_without_an_answer_nobody_comes_in)
{
    struct keyfile *server = key_new("server", NULL), *a = key_new("a", server->pub);
    for (int turn = 0; turn < 2; turn++) {
        struct door d;
        char list[256];
        silent = turn == 0;
        door_open(&d, server, "tcp://127.0.0.1:0");
        (void)snprintf(list, sizeof list, "%s worker w1\n", a->pub);
        door_allow(&d, list);
        ck_assert_int_eq(comes(a, d.bound, ENV_COORDINATOR, silent ? NEVER : SOON), !silent);
        door_close(&d);
    }
    keyfile_free(server);
    keyfile_free(a);
}
END_TEST

/* Large frames arrive whole, and no part of them stays counted as unfinished. */
START_TEST(net_keys_carry_the_largest_frame)
{
    struct keyfile *server = key_new("server", NULL), *a = key_new("a", server->pub);
    struct door d;
    struct guest g;
    char list[256];
    door_open(&d, server, "tcp://127.0.0.1:0");
    (void)snprintf(list, sizeof list, "%s worker w1\n", a->pub);
    door_allow(&d, list);
    ck_assert_int_eq(guest_open(&g, a, d.bound, ENV_COORDINATOR), 0);
    ck_assert(guest_asks(&g, SOON));
    struct msg *m = msg_new();
    memset(msg_add(m, 8), 1, 8);
    memset(msg_add(m, LIMIT_FRAME_BYTES), 2, LIMIT_FRAME_BYTES);
    g.answered = false;
    ck_assert_int_eq(env_send(g.env, g.to, m), 0);
    env_timer_start(g.env, &g.guard, UINT64_C(10000000000));
    net_run(g.net);
    ck_assert(g.answered);
    net_free(g.net);
    door_close(&d);
    keyfile_free(server);
    keyfile_free(a);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("keys");
    TCase *t = tcase_create("keys");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, keys_are_made_once);
    tcase_add_test(t, keys_pin_the_old_and_the_new_coordinator);
    tcase_add_test(t, keys_with_loose_modes_are_refused);
    tcase_add_test(t, keys_that_sign_are_files_of_their_own);
    tcase_add_test(t, keys_are_found_where_they_are_named);
    tcase_add_test(t, keys_beside_the_credentials_are_none);
    tcase_add_test(t, keys_in_long_files_are_refused);
    tcase_add_test(t, keys_that_do_not_fit_are_refused);
    tcase_add_test(t, list_is_read);
    tcase_add_test(t, lists_have_their_bounds);
    tcase_add_test(t, names_are_words_of_a_list);
    tcase_add_test(t, broken_lists_are_refused_with_their_line);
    tcase_add_test(t, net_keys_matrix);
    tcase_add_test(t, net_who_was_refused_comes_in_when_listed);
    tcase_add_test(t, net_another_list_counts_at_once);
    tcase_add_test(t, net_without_an_answer_nobody_comes_in);
    tcase_add_test(t, net_ipc_asks_nobody_for_keys);
    tcase_add_test(t, net_keys_carry_the_largest_frame);
    tcase_add_test(t, net_core_listens_and_admits_while_it_runs);
    suite_add_tcase(s, t);
    return suite_main(s);
}
