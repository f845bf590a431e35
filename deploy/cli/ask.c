/* ask.c: arguments of the command line, and one question at a time to a daemon. */
#include "deploy/cli/cli.h"
#include "proto/base/container_of.h"
#include "proto/base/text.h"
#include "proto/job/keys.h"
#include "proto/net/net.h"
#include "proto/wire/coordinators.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- arguments ------------------------------------------------------------------------------- */

static const struct keyfile *the_keys; /* from --keys or SHOAL_KEYS; NULL: none */

void cli_keys_set(const struct keyfile *keys)
{
    the_keys = keys;
}

bool cli_plain(const char *endpoint)
{
    return the_keys == NULL && coordinators_tcp(endpoint);
}

const char *cli_doubt(const char *endpoint)
{
    if (!coordinators_tcp(endpoint))
        return "";
    if (the_keys != NULL)
        return ", and does its list have our key";
    return ", and does it ask for a key (SHOAL_KEYS=FILE)";
}

static bool has_option(const struct option_command *c, const char *name)
{
    const struct config_key *k = c->option;
    while (k->path != NULL && strcmp(k->path, name) != 0)
        k++;
    return k->path != NULL;
}

/* True for a verb whose --keys are those of rows. */
static bool names_rows(const struct option_command *c)
{
    return strcmp(c->name, "shoal erase") == 0 || strncmp(c->name, "shoal keys ", 11) == 0;
}

/* --keys, else SHOAL_KEYS, else the file that systemd hands over. */
static int keys_take(const struct option_line *l, struct err *e)
{
    struct keyfile *keys;
    const char *path = NULL;
    if (!has_option(l->command, "coordinator") || has_option(l->command, "role"))
        return 0;
    if (!names_rows(l->command))
        path = option_text(l, "keys");
    if (path == NULL)
        path = getenv("SHOAL_KEYS");
    int rc = keyfile_find(path, &keys, e);
    the_keys = keys;
    return rc;
}

int cli_coordinator(const struct option_line *l, const char **out, struct err *e)
{
    *out = option_text(l, "coordinator");
    if (*out == NULL)
        *out = getenv("SHOAL_COORDINATOR");
    if (*out != NULL && (*out)[0] != 0)
        return 0;
    *out = KEYS_COORDINATOR;
    if (access(&KEYS_COORDINATOR[strlen("ipc://")], F_OK) == 0)
        return 0;
    return err_set(
        e, SHOAL_E_USAGE,
        "say where: --coordinator or SHOAL_COORDINATOR, tcp://HOST:PORT or ipc://PATH; on "
        "this machine nobody listens at " KEYS_COORDINATOR);
}

/* True when the reader has closed the pipe, as in `shoal local | head`; this is no failure. */
static bool reader_gone(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO};
    return poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
}

/* The output is the verb's result, so a verb whose output cannot be written has failed. */
static int output_flush(struct err *e)
{
    errno = 0;
    if ((fflush(stdout) == 0 && ferror(stdout) == 0) || reader_gone())
        return 0;
    return err_set(e, SHOAL_E_IO, "cannot write to standard output: %s",
                   strerror(errno != 0 ? errno : EIO));
}

/* Says "shoal VERB: text" on stderr and returns the exit status that belongs to e's code. */
static int fail(const char *verb, const struct err *e)
{
    char text[sizeof e->text];
    memcpy(text, e->text, sizeof text);
    text_clean(text);     /* it may contain text of files and peers */
    (void)fflush(stdout); /* where both go to one file, the error is its last line */
    fprintf(stderr, "shoal %s: %s\n", verb, text);
    return err_exit_status(e->code);
}

int cli_run(const char *command, int (*verb)(struct option_line *o, struct err *e), int argc,
            char **argv)
{
    struct option_line o;
    struct err e = {0};
    int rc = option_parse(command, argc, argv, &o, &e);
    bool help = rc == 0 && option_given(&o, "help");
    if (help)
        option_help(o.command, stdout);
    if (rc == 0 && !help)
        rc = option_check(&o, &e);
    if (rc == 0 && !help)
        rc = keys_take(&o, &e);
    if (rc == 0 && !help)
        rc = verb(&o, &e);
    option_free(&o);
    if (rc == 0)
        rc = output_flush(&e);
    if (rc < 0)
        return fail(command + strlen("shoal "), &e);
    return rc;
}

void cli_json_print(const struct json *j)
{
    char *text = json_text(j, 2);
    if (text != NULL)
        puts(text);
    free(text);
}

/* ---- questions ------------------------------------------------------------------------------- */

struct ask {
    const char *doubt; /* cli_doubt of the peer's endpoint */
    struct net *net;
    struct env *env;
    struct coordinators coordinators; /* not used for a shard */
    peer_t peer;
    char stood_by[ERR_TEXT_MAX]; /* the last refusal of a coordinator that stands by */
    peer_t named;                /* a connection to the one that it names; 0: none */
    char named_at[COORDINATORS_BYTES];
    bool led; /* a coordinator has answered that leads */
    uint64_t id;
    const struct wire *request; /* lent while asking */
    const struct frame *frames; /* lent while asking */
    uint32_t frame_count;
    struct env_timer resend, deadline;
    struct wire *reply;
    struct msg *message; /* the reply's */
    int outcome;         /* 1 while waiting */
    uint64_t silent_ns;  /* silence after which the peer is regarded as gone; 0: none */
    uint64_t heard_ns;   /* when the peer's last message came */
    struct err why;
};

static struct ask *the_ask_of_resend(struct env_timer *t)
{
    return container_of(t, struct ask, resend);
}

static uint32_t request_frames(enum wire_type type)
{
    switch (type) {
#define X(name, number, request, reply)                                                            \
    case WIRE_TYPE_##name:                                                                         \
        return request;
        WIRE_MAP(X)
#undef X
    case WIRE_TYPE_NONE:
        break;
    }
    return 0;
}

static void ask_send(struct ask *a)
{
    struct msg *m = wire_encode(a->request);
    for (uint32_t i = 0; m != NULL && i < a->frame_count; i++) {
        void *to = msg_add(m, a->frames[i].bytes);
        if (to == NULL) {
            msg_free(m);
            m = NULL;
        } else if (a->frames[i].bytes > 0) {
            memcpy(to, a->frames[i].data, a->frames[i].bytes);
        }
    }
    if (m != NULL)
        (void)env_send(a->env, a->peer, m); /* refused: the resend timer tries again */
    coordinators_asked(&a->coordinators);
    env_timer_start(a->env, &a->resend, 1000000000u);
}

/* While the peer works on the answer, another question shows that it is still there. */
static void ask_probe(struct ask *a)
{
    struct wire w = {.type = WIRE_TYPE_STATUS, .id = a->id | 1ull << 63};
    struct msg *m = wire_encode(&w);
    if (m != NULL)
        (void)env_send(a->env, a->peer, m);
    if (env_now_ns(a->env) - a->heard_ns < a->silent_ns)
        return;
    a->outcome = SHOAL_E_UNAVAILABLE;
    env_stop(a->env);
}

/* Asks the coordinator that is said to lead whether it is there; it gets no order. */
static void named_send(struct ask *a)
{
    struct wire w = {.type = WIRE_TYPE_HELLO, .u.HELLO.version = WIRE_VERSION};
    struct msg *m = wire_encode(&w);
    if (m != NULL)
        (void)env_send(a->env, a->named, m);
}

static void named_close(struct ask *a)
{
    if (a->named != 0)
        env_disconnect(a->env, a->named);
    a->named = 0;
}

/* Connects to the endpoint, unless it is the one at hand. */
static void named_open(struct ask *a, const char *endpoint)
{
    if (a->named != 0 && strcmp(a->named_at, endpoint) == 0)
        return;
    named_close(a);
    text_copy(a->named_at, sizeof a->named_at, endpoint);
    if (env_connect(a->env, endpoint, ENV_COORDINATOR, &a->named) != 0)
        a->named = 0;
    else
        named_send(a);
}

/* True: the coordinator that is said to lead is there, and leads. */
static bool named_leads(struct msg *m)
{
    struct wire w;
    struct err e;
    return wire_decode(m, &w, &e) == 0 && w.reply && w.status != SHOAL_E_NOT_LEADER;
}

static void resend_fire(struct env_timer *t)
{
    struct ask *a = the_ask_of_resend(t);
    ask_send(a);
    if (a->named != 0)
        named_send(a);
    if (a->silent_ns > 0)
        ask_probe(a);
}

static void deadline_fire(struct env_timer *t)
{
    struct ask *a = container_of(t, struct ask, deadline);
    a->outcome = SHOAL_E_TIMEOUT;
    env_stop(a->env);
}

/* A coordinator that stands by has refused. The only one that we know is not asked on when the one
 * that it names leads: unless it has led before, and may lead again. That one may just have ended:
 * then this one may lead in a moment. */
static void ask_passed(struct ask *a)
{
    char endpoint[COORDINATORS_BYTES];
    text_copy(a->stood_by, sizeof a->stood_by, a->reply->error);
    if (a->coordinators.count == 1 && !a->led && coordinators_named(a->stood_by, endpoint))
        named_open(a, endpoint);
}

/* Waits no longer: no answer will come from this coordinator. */
static void ask_ended(struct ask *a, int outcome)
{
    a->outcome = outcome;
    env_stop(a->env);
}

static void ask_on_message(void *core, peer_t from, struct msg *m)
{
    struct ask *a = core;
    if (a->named != 0 && from == a->named) {
        if (a->outcome == 1 && named_leads(m))
            ask_ended(a, SHOAL_E_NOT_LEADER);
        msg_free(m);
        return;
    }
    int rc = SHOAL_E_AGAIN;
    if (a->outcome == 1)
        rc = wire_decode(m, a->reply, &a->why);
    if (rc == SHOAL_E_VERSION && a->reply->reply && a->reply->id == a->id)
        ask_ended(a, SHOAL_E_VERSION);
    bool answer = rc == 0 && a->reply->reply;
    bool passed = answer && coordinators_heard(&a->coordinators, from, a->reply);
    if (passed)
        ask_passed(a);
    else
        a->heard_ns = env_now_ns(a->env);
    a->led = a->led || (answer && !passed);
    if (!answer || passed || a->reply->id != a->id) {
        msg_free(m);
        return;
    }
    a->outcome = a->reply->status;
    a->message = m;
    env_stop(a->env);
}

static void ask_on_drained(void *core)
{
    (void)core;
}

static void ask_on_peer_gone(void *core, peer_t peer)
{
    struct ask *a = core;
    coordinators_gone(&a->coordinators, peer);
}

static void ask_moved(struct coordinators *c, peer_t before)
{
    struct ask *a = container_of(c, struct ask, coordinators);
    (void)before;
    a->peer = c->peer;
    if (a->outcome == 1)
        ask_send(a);
}

/* libzmq would retry in silence. */
static int endpoint_check(const char *endpoint, struct err *e)
{
    const char *path = endpoint + strlen("ipc://");
    if (strncmp(endpoint, "tcp://", 6) != 0 && strncmp(endpoint, "ipc://", 6) != 0)
        return err_set(e, SHOAL_E_USAGE, "%s is not an endpoint such as tcp://127.0.0.1:7000",
                       endpoint);
    if (strncmp(endpoint, "ipc://", 6) == 0 && access(path, W_OK) != 0 && errno == EACCES)
        return err_set(e, SHOAL_E_DENIED,
                       "%s is not open to this user; a unit's is to the group shoal: adduser YOU "
                       "shoal (and YOU shoal-admin to give orders), then log in anew",
                       endpoint);
    return 0;
}

static int endpoints_check(const char *list, struct err *e)
{
    struct coordinators c;
    struct err why;
    if (coordinators_parse(list, &c, &why) != 0)
        return err_set(e, SHOAL_E_USAGE, "%s is not an endpoint such as tcp://127.0.0.1:7000: %s",
                       list, why.text);
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < c.count; i++)
        rc = endpoint_check(c.endpoint[i], e);
    return rc;
}

int cli_ask_open(const char *endpoint, const char *key, struct ask **out, struct err *e)
{
    static const struct env_handler handler = {ask_on_message, ask_on_drained, ask_on_peer_gone};
    struct net_options options = {.keys = the_keys};
    int rc = endpoints_check(endpoint, e);
    if (rc != 0)
        return rc;
    struct ask *a = calloc(1, sizeof *a);
    if (a == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    rc = net_new(&options, &a->net, e);
    if (rc != 0) {
        free(a);
        return rc;
    }
    a->env = net_env(a->net);
    a->doubt = cli_doubt(endpoint);
    net_set_handler(a->net, &handler, a);
    a->resend.fire = resend_fire;
    a->deadline.fire = deadline_fire;
    a->id = env_random(a->env) >> 1;
    a->coordinators.moved = ask_moved;
    struct err why;
    if (key != ENV_COORDINATOR)
        rc = env_connect(a->env, endpoint, key, &a->peer);
    else if ((rc = coordinators_open(&a->coordinators, a->env, endpoint, &why)) == 0)
        a->peer = a->coordinators.peer;
    if (rc == 0) {
        *out = a;
        return 0;
    }
    if (rc == SHOAL_E_CONFIG)
        err_set(e, SHOAL_E_USAGE, "%s is not an endpoint such as tcp://127.0.0.1:7000", endpoint);
    else
        err_set(e, rc, "%s cannot be asked%s: %s", endpoint,
                text_if(rc == SHOAL_E_DENIED, " with these keys"), net_wrong(a->net));
    cli_ask_close(a);
    return e->code;
}

void cli_ask_close(struct ask *a)
{
    if (a == NULL)
        return;
    coordinators_close(&a->coordinators);
    net_free(a->net);
    free(a);
}

int cli_ask(struct ask *a, struct wire *request, const struct frame *frames, uint32_t timeout_ms,
            struct wire *reply, struct msg **reply_message, struct err *e)
{
    request->id = ++a->id;
    request->reply = false;
    a->request = request;
    a->frames = frames;
    a->frame_count = request_frames(request->type);
    a->reply = reply;
    a->message = NULL;
    a->outcome = 1;
    a->heard_ns = env_now_ns(a->env);
    a->stood_by[0] = 0;
    ask_send(a);
    env_timer_start(a->env, &a->deadline, (uint64_t)timeout_ms * 1000000u);
    net_run(a->net);
    env_timer_stop(a->env, &a->resend);
    env_timer_stop(a->env, &a->deadline);
    named_close(a);
    if (a->outcome == SHOAL_E_NOT_LEADER && a->message == NULL)
        return err_set(e, SHOAL_E_UNAVAILABLE,
                       "the coordinator at %s stands by: %s; ask that one, or both: --coordinator "
                       "A,B",
                       coordinators_endpoint(&a->coordinators), a->stood_by);
    if (a->outcome == SHOAL_E_VERSION && a->message == NULL)
        return err_set(e, SHOAL_E_VERSION, "it is of another release: %s", a->why.text);
    if (a->outcome == SHOAL_E_TIMEOUT && a->message == NULL && a->stood_by[0] != 0)
        return err_set(e, SHOAL_E_UNAVAILABLE,
                       "no answer to %s within %g s; a coordinator that stands by says: %s",
                       wire_type_name(request->type), timeout_ms / 1000.0, a->stood_by);
    if (a->outcome == SHOAL_E_TIMEOUT && a->message == NULL)
        return err_set(e, SHOAL_E_UNAVAILABLE,
                       "no answer to %s within %g s; is it running, is that its address%s?",
                       wire_type_name(request->type), timeout_ms / 1000.0, a->doubt);
    if (a->outcome == SHOAL_E_UNAVAILABLE && a->message == NULL)
        return err_set(e, SHOAL_E_UNAVAILABLE,
                       "nothing heard for %g s while waiting for the answer to %s; has it stopped? "
                       "Look with `shoal status`, then ask again",
                       (double)a->silent_ns / 1e9, wire_type_name(request->type));
    if (a->outcome == 1)
        return err_set(e, SHOAL_E_STOPPED, "interrupted");
    if (a->outcome != 0) {
        msg_free(a->message);
        return err_set(e, a->outcome, "%s", reply->error);
    }
    if (reply_message != NULL)
        *reply_message = a->message;
    else
        msg_free(a->message);
    return 0;
}

void cli_ask_silence(struct ask *a, uint32_t silent_ms)
{
    a->silent_ns = (uint64_t)silent_ms * 1000000u;
}

int cli_coordinator_ask(const struct option_line *l, struct wire *request, uint32_t timeout_ms,
                        uint32_t silent_ms, struct wire *reply, struct json **told, struct err *e)
{
    const char *endpoint;
    struct ask *a;
    struct msg *m = NULL;
    int rc = cli_coordinator(l, &endpoint, e);
    if (rc != 0)
        return rc;
    rc = cli_ask_open(endpoint, NULL, &a, e);
    if (rc != 0)
        return rc;
    cli_ask_silence(a, silent_ms);
    rc = cli_ask(a, request, NULL, timeout_ms, reply, &m, e);
    if (rc != 0)
        err_wrap(e, rc, "coordinator %s", endpoint);
    else if (told != NULL)
        rc = json_parse(m->frame[1].data, m->frame[1].bytes, told, e);
    msg_free(m);
    cli_ask_close(a);
    return rc;
}
