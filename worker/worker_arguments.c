/* worker_arguments.c: reads the command line and the files that complete it. */
#include "worker/worker_arguments.h"
#include "proto/base/device_list.h"
#include "proto/base/hash.h"
#include "proto/base/json.h"
#include "proto/base/machine.h"
#include "proto/base/text.h"
#include "proto/base/version.h"
#include "proto/job/config.h"
#include "proto/job/instance.h"
#include "proto/job/keys.h"
#include "proto/net/net.h"
#include "proto/wire/wire.h"
#include "worker/data/decode.h"
#include "worker/train/known_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool worker_arguments_alone(const struct worker_arguments *a)
{
    return strcmp(a->verb, "fields") == 0 || strcmp(a->verb, "count") == 0 ||
           strcmp(a->verb, "check") == 0 || strcmp(a->verb, "values") == 0 ||
           strcmp(a->verb, "convert") == 0 || strcmp(a->verb, "data") == 0;
}

static uint32_t number(const struct option_line *o, const char *name, uint32_t without)
{
    if (option_text(o, name) == NULL)
        return without;

    return (uint32_t)option_int(o, name);
}

static int predict_take(struct option_line *o, struct worker_arguments *a, struct err *e)
{
    const char *part = option_text(o, "part");
    char more;
    a->out = option_text(o, "out");
    a->report = option_text(o, "report");
    a->in = option_list(o, "in");
    a->column = option_list(o, "column");
    if (part != NULL && (sscanf(part, "%u/%u%c", &a->part, &a->parts, &more) != 2 ||
                         a->parts == 0 || a->parts > LIMIT_WORKERS || a->part >= a->parts))
        return err_set(e, SHOAL_E_USAGE, "--part %s: expected I/N, I from 0 to N - 1, N up to %u",
                       part, LIMIT_WORKERS);
    return score_format_of(o, &a->format, e);
}

/* The text of an option, or that of the environment's variable. */
static const char *text_or_env(const struct option_line *o, const char *name, const char *variable)
{
    const char *text = option_text(o, name);
    if (text == NULL)
        text = getenv(variable);
    return text;
}

static int devices_take(const struct option_line *o, struct worker_arguments *a, struct err *e)
{
    static const char *const name[] = {"devices", "device"};
    for (size_t i = 0; i < sizeof name / sizeof name[0]; i++) {
        const char *text = option_text(o, name[i]);
        struct device_list list;
        struct err why = {0};
        if (text == NULL)
            continue;
        if (a->devices != NULL)
            return err_set(e, SHOAL_E_USAGE, "--devices and --device: give one of them");
        if (device_list_parse(text, &list, &why) != 0)
            return err_set(e, SHOAL_E_USAGE, "--%s: %s", name[i], why.text);
        a->devices = text;
    }
    return 0;
}

static int values_take(struct option_line *o, struct worker_arguments *a, struct err *e)
{
    const struct string_list *set = option_list(o, "set");
    *a =
        (struct worker_arguments){.coordinator = text_or_env(o, "coordinator", "SHOAL_COORDINATOR"),
                                  .keys = text_or_env(o, "keys", "SHOAL_KEYS"),
                                  .config = option_text(o, "config"),
                                  .instance = option_text(o, "instance"),
                                  .name = option_text(o, "name"),
                                  .listen = text_or(option_text(o, "listen"), ""),
                                  .advertise = text_or(option_text(o, "advertise"), ""),
                                  .field = option_text(o, "field"),
                                  .value = option_text(o, "value"),
                                  .made_by = option_text(o, "made-by"),
                                  .share = option_float(o, "share"),
                                  .rows = (uint64_t)option_int(o, "rows"),
                                  .label = option_text(o, "label"),
                                  .job = option_text(o, "job"),
                                  .set = set,
                                  .lanes = number(o, "lanes", 0),
                                  .wait_s = number(o, "wait", 0),
                                  .split = (uint32_t)option_choice(o, "split"),
                                  .cores = number(o, "cores", 0),
                                  .io_threads = number(o, "io-threads", 0),
                                  .backend_given = option_given(o, "backend"),
                                  .metrics = option_text(o, "metrics"),
                                  .check = o->word[1],
                                  .check_only = option_given(o, "check"),
                                  .as_json = option_given(o, "json"),
                                  .insecure = option_given(o, "insecure-plaintext"),
                                  .commands = option_given(o, "allow-commands")};
    if (a->coordinator == NULL)
        a->coordinator = KEYS_COORDINATOR;
    if (a->backend_given)
        a->backend = (enum backend_kind)option_choice(o, "backend");
    for (size_t i = 0; i < set->count; i++)
        if (strchr(set->item[i], '=') == NULL)
            return err_set(e, SHOAL_E_USAGE, "--set %s: expected KEY=VALUE", set->item[i]);
    if (a->name != NULL && strlen(a->name) >= LIMIT_NAME)
        return err_set(e, SHOAL_E_USAGE, "--name %s: at most %u bytes", a->name, LIMIT_NAME - 1);
    int rc = devices_take(o, a, e);
    if (rc != 0)
        return rc;
    return predict_take(o, a, e);
}

bool worker_arguments_train(const struct worker_arguments *a)
{
    return strcmp(a->verb, "train") == 0 || strcmp(a->verb, "replay") == 0 || a->stay;
}

/* `run` has its settings in its file; an option on the command line would be ignored, so it is
 * refused. */
static int run_alone(const struct option_line *o, struct err *e)
{
    static const char *const others[] = {
        "coordinator",    "keys",    "lanes",   "name",       "backend",
        "device",         "devices", "cores",   "io-threads", "wait",
        "split",          "in",      "out",     "format",     "column",
        "part",           "report",  "field",   "value",      "made-by",
        "share",          "rows",    "label",   "job",        "insecure-plaintext",
        "allow-commands", "json",    "metrics", "listen",     "advertise"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (option_given(o, others[i]))
            return err_set(e, SHOAL_E_USAGE,
                           "run takes --config, --set and --check alone: its settings, not --%s, "
                           "stand in the worker's file",
                           others[i]);
    return 0;
}

/* Loads the backend that a job with `train.backend: auto` would use. */
static void version(void)
{
    const char *library[] = {net_libraries(), wire_library(),     json_library(), config_library(),
                             hash_library(),  decode_libraries(), http_library(), NULL};
    struct backend *b;
    struct err e = {0};
    version_print("shoal-worker", WIRE_VERSION, library);
    if (backend_load(BACKEND_AUTO, &b, &e) == 0)
        printf("dense kernels: %s, %s%s%s\n", backend_name(b), backend_about(b),
               e.text[0] != '\0' ? "; " : "", e.text);
    else
        printf("dense kernels: none: %s\n", e.text);
}

int worker_arguments_take(int argc, char **argv, struct option_line *o, struct worker_arguments *a,
                          struct err *e)
{
    int rc = option_program("shoal-worker", NULL, version, argc, argv, o, e);
    if (rc == 0)
        rc = values_take(o, a, e);
    if (rc != 0)
        return rc;
    bool reads = a->check_only && o->words > 0 && strcmp(o->word[0], "convert") == 0;
    if (o->words != 1 + reads)
        return err_set(
            e, SHOAL_E_USAGE,
            "say what to do: run, train, replay, eval, predict, fields, count, check, values, "
            "convert or data; "
            "shoal-worker --help tells more");
    a->verb = o->word[0];
    a->stay = strcmp(a->verb, "run") == 0;
    if (a->stay)
        return run_alone(o, e);
    if (a->instance != NULL)
        return err_set(e, SHOAL_E_USAGE, "--instance is of run, whose file it names");
    bool train = worker_arguments_train(a);
    if (!train && strcmp(a->verb, "eval") != 0 && strcmp(a->verb, "predict") != 0 &&
        !worker_arguments_alone(a))
        return err_set(
            e, SHOAL_E_USAGE,
            "%s: a worker can run, train, replay, eval, predict, tell fields or values, count, "
            "check, convert or look at data",
            a->verb);
    bool looks =
        (strcmp(a->verb, "convert") == 0 && a->check != NULL) || strcmp(a->verb, "data") == 0;
    if (!train && !looks && a->config == NULL)
        return err_set(e, SHOAL_E_USAGE,
                       "--config is missing: the job file says what the input and the model are");
    if (!train && (a->listen[0] != '\0' || a->advertise[0] != '\0'))
        return err_set(e, SHOAL_E_USAGE,
                       "--listen and --advertise are of train and replay: no other worker sends "
                       "to %s",
                       a->verb);
    if (!train && a->metrics != NULL)
        return err_set(e, SHOAL_E_USAGE,
                       "--metrics is of train and replay: %s ends by itself and tells its figures "
                       "then",
                       a->verb);
    if ((a->field == NULL) != (a->value == NULL))
        return err_set(e, SHOAL_E_USAGE,
                       "--field and --value belong together: which column, and which value in it");
    return 0;
}

/* Clears the job's data.test: its files and its commands. */
static void test_forget(struct job *job)
{
    config_list_free(&job->data.test);
    free(job->data.objects.of[WIRE_TEST].list);
    free(job->data.objects.of[WIRE_TEST].open);
    memset(&job->data.objects.of[WIRE_TEST], 0, sizeof job->data.objects.of[WIRE_TEST]);
}

/* Replaces data.test by the command line's input. */
static int input_take(const struct worker_arguments *a, struct job *job, struct err *e)
{
    int rc = 0;
    if (a->in->count > 0 && a->split != WIRE_TEST)
        return err_set(e, SHOAL_E_USAGE, "--in and --split: what is scored is one or the other");
    if (a->in->count > 0)
        test_forget(job);
    for (size_t i = 0; i < a->in->count && rc == 0; i++)
        rc = config_list_add(&job->data.test, a->in->item[i]);
    if (rc != 0)
        return err_set(e, rc, "out of memory");

    if (strcmp(a->verb, "predict") != 0 || job->data.test.count > 0)
        return 0;

    return err_set(e, SHOAL_E_USAGE, "--in is missing: the files to score");
}

/* Turns the job into a prediction, which measures nothing. */
static void predict_job(const struct worker_arguments *a, struct job *job)
{
    job->predict.on = true;
    job->predict.columns = *a->column; /* the command line outlives the job */
    job->evaluate.group[0] = '\0';
    config_list_free(&job->evaluate.by);
}

/* For `fields`: takes the names of the job that made the tables, whatever this job's order is. */
static int made_by_take(const struct worker_arguments *a, struct job *job, struct err *e)
{
    char *text;
    size_t bytes;
    int rc = config_read(a->made_by, &text, &bytes, e);
    if (rc == 0) {
        rc = known_names_take(job, text, bytes, e);
        free(text);
    }
    return rc;
}

struct board_options worker_arguments_board(const struct worker_arguments *a)
{
    return (struct board_options){.program = "shoal-worker",
                                  .version = SHOAL_VERSION,
                                  .listen = text_or(a->metrics, ""),
                                  .token = text_or(a->metrics_token, ""),
                                  .loop = "worker",
                                  .loops = 1};
}

int worker_arguments_job(struct worker_arguments *a, struct job *job, bool *have_job, struct err *e)
{
    *have_job = false;
    if (a->config != NULL) {
        int rc = job_load(a->config, a->set, job, e);
        if (rc != 0)
            return rc;
        *have_job = true;
        if (a->made_by != NULL && (rc = made_by_take(a, job, e)) != 0)
            return rc;
        if (!a->backend_given)
            a->backend = job->train.backend;
        if (a->lanes == 0)
            a->lanes = job->train.lanes;
        if (strcmp(a->verb, "predict") == 0)
            predict_job(a, job);
        rc = input_take(a, job, e);
        if (rc != 0)
            return rc;
    }
    if (a->lanes == 0)
        a->lanes = 2;
    if (a->cores == 0)
        a->cores = machine_cores("");
    const struct board_options bo = worker_arguments_board(a);
    return board_check(&bo, e);
}

int worker_arguments_file(struct worker_arguments *a, char path[LIMIT_PATH],
                          struct worker_config *c, struct err *e)
{
    int rc = instance_file(a->config, a->instance, "worker", path, e);
    if (rc != 0)
        return rc;
    a->config = NULL;
    if (path[0] != '\0')
        a->config = path;
    rc = worker_config_load(a->config, a->set, c, e);
    if (rc != 0)
        return rc;
    a->coordinator = c->coordinator;
    a->keys = c->keys;
    a->listen = c->listen;
    a->advertise = c->advertise;
    if (c->name[0] == '\0' && a->instance != NULL)
        instance_name(a->instance, c->name);
    a->name = NULL;
    if (c->name[0] != '\0')
        a->name = c->name;
    a->lanes = c->lanes;
    if (c->cores != 0)
        a->cores = c->cores;
    else
        a->cores = machine_cores("");

    a->io_threads = c->io_threads;
    a->devices = NULL;
    if (c->devices[0] != '\0')
        a->devices = c->devices;
    a->backend = c->backend;
    a->backend_given = c->backend_given;
    a->insecure = c->insecure_plaintext;
    a->commands = c->allow_commands;
    a->set = &c->set;
    a->metrics = c->metrics;
    a->metrics_token = c->metrics_token;
    const struct board_options bo = worker_arguments_board(a);
    return board_check(&bo, e);
}
