/* coord_stand.c: standing by: the tries to lead, and the answer to each request. */
#include "server/coord_stand.h"

#include "proto/base/container_of.h"
#include "proto/base/log.h"
#include "proto/base/module.h"
#include "proto/base/text.h"
#include "server/coord/refer.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* ZooKeeper notices a dead leader after this time and at most one tickTime more. With a tickTime of
 * 500 ms and PAUSE_MS a standby leads within 2.5 s. */
#define SESSION_MS 1500u
#define PAUSE_MS 100
#define MODULE "libshoal_zookeeper.so"

typedef int (*open_function)(const char *hosts, const char *login, uint32_t timeout_ms,
                             const struct zoo_ops **ops, struct zoo **out, struct err *e);
static open_function session_open; /* from the module, which stays open */

static int module_find(struct err *e)
{
    struct err why = {0};
    if (session_open != NULL)
        return 0;
    void *handle = module_open(MODULE, &why);
    if (handle == NULL)
        return err_set(e, SHOAL_E_UNAVAILABLE,
                       "store: ZooKeeper needs a module: install the package shoal-zookeeper (%s)",
                       why.text);
    void *symbol = dlsym(handle, "zoo_library_open");
    memcpy(&session_open, &symbol, sizeof session_open); /* ISO C has no cast to a function */
    if (symbol == NULL)
        return err_set(e, SHOAL_E_VERSION,
                       "module %s is not of this version of shoal: install both together", MODULE);
    return 0;
}

/* ---- a try ----------------------------------------------------------------------------------- */

static void session_end(struct coord_stand *s)
{
    if (s->attempt.o.zoo != NULL)
        s->attempt.o.ops->close(s->attempt.o.zoo);
    s->attempt.o.zoo = NULL;
}

static int attempt(struct coord_stand *s, struct err *e)
{
    struct coord_zookeeper *o = &s->attempt.o;
    int rc = 0;
    s->attempt.leader[0] = '\0';
    if (o->zoo == NULL) {
        rc = session_open(s->config->store_hosts, NULL, SESSION_MS, &o->ops, &o->zoo, e);
        if (rc != 0) {
            o->zoo = NULL;
            return rc;
        }
        s->attempt.granted_ms = o->ops->timeout_ms(o->zoo);
        o->writer++;
    }
    rc = coord_lead_try(o, s->endpoint, s->attempt.leader, e);
    if (rc == 0) {
        rc = coord_zookeeper_open(o, &s->attempt.opened, e);
        o->zoo = NULL; /* it was taken over */
    }
    if (rc != 0 && rc != SHOAL_E_AGAIN && rc != SHOAL_E_UNAVAILABLE)
        session_end(s);
    return rc;
}

static void attempt_run(struct env_work *w)
{
    struct coord_stand *s = container_of(w, struct coord_stand, work);
    nanosleep(&(struct timespec){.tv_nsec = PAUSE_MS * 1000000L}, NULL);
    s->attempt.e = (struct err){0};
    s->attempt.rc = attempt(s, &s->attempt.e);
}

/* True for what another try may find otherwise. */
static bool passes(int rc)
{
    return rc == SHOAL_E_AGAIN || rc == SHOAL_E_UNAVAILABLE || rc == SHOAL_E_IO ||
           rc == SHOAL_E_FENCED || rc == SHOAL_E_NOT_FOUND;
}

static void trouble_tell(struct coord_stand *s)
{
    const char *text = s->attempt.e.text;
    if (s->attempt.rc == 0 || s->attempt.rc == SHOAL_E_AGAIN)
        text = "";
    if (text[0] != '\0' && strcmp(text, s->told) != 0)
        log_warn("%s; tries again", text);
    text_copy(s->told, sizeof s->told, text);
}

static void leader_note(struct coord_stand *s)
{
    if (strcmp(s->leader, s->attempt.leader) == 0)
        return;
    memcpy(s->leader, s->attempt.leader, sizeof s->leader);
    if (s->leader[0] != '\0')
        log_info("stands by: the coordinator at %s leads", s->leader);
}

static void attempt_done(struct env_work *w)
{
    struct coord_stand *s = container_of(w, struct coord_stand, work);
    int rc = s->attempt.rc;
    leader_note(s);
    trouble_tell(s);
    if (s->attempt.granted_ms > SESSION_MS) {
        log_warn("ZooKeeper gives sessions of %u ms at least: a standby leads that late; set "
                 "tickTime=500 in zoo.cfg",
                 s->attempt.granted_ms);
        s->attempt.granted_ms = 0;
    }
    if (rc == 0) {
        s->on_lead(s->context, s->attempt.opened);
        s->attempt.opened = NULL;
    } else if (passes(rc)) {
        env_work_start(s->env, w);
    } else {
        s->fatal = rc;
        s->e = s->attempt.e;
        env_stop(s->env);
    }
}

/* ---- requests -------------------------------------------------------------------------------- */

static void on_message(void *core, peer_t from, struct msg *m)
{
    struct coord_stand *s = core;
    coord_refer(s->env, from, m, s->leader);
}

static void on_drained(void *core)
{
    (void)core;
}

const struct env_handler coord_stand_handler = {on_message, on_drained, NULL};

/* ---- life ------------------------------------------------------------------------------------ */

int coord_stand_begin(struct coord_stand *s, struct err *e)
{
    int rc = module_find(e);
    if (rc != 0)
        return rc;
    s->attempt.o = (struct coord_zookeeper){
        .path = s->config->store_path, .env = s->env, .writer = env_random(s->env), .led = true};
    s->work = (struct env_work){.run = attempt_run, .done = attempt_done};
    env_work_start(s->env, &s->work);
    return 0;
}

void coord_stand_end(struct coord_stand *s)
{
    session_end(s);
    coord_store_close(s->attempt.opened);
    s->attempt.opened = NULL;
}

void coord_stand_describe(const struct coord_stand *s, char *text, size_t bytes)
{
    if (s->leader[0] != '\0')
        (void)snprintf(text, bytes, "stands by: the coordinator at %s leads", s->leader);
    else
        (void)snprintf(text, bytes, "stands by: %s",
                       s->told[0] != '\0' ? s->told : "no coordinator leads yet");
}
