/* report.c: prints a report: the result, the speed, the use of time, and suggestions. */
#include "deploy/cli/cli.h"
#include "proto/base/text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { BACKENDS_SHOWN = 8 };

double cli_number(const struct json *r, const char *path)
{
    return json_as_number(json_get(r, path), (double)NAN);
}

double cli_count(const struct json *r, const char *path)
{
    return json_as_number(json_get(r, path), 0);
}

const char *cli_number_text(double x, char out[32])
{
    char digits[32];
    if (isnan(x))
        return strcpy(out, "-");
    size_t n = (size_t)snprintf(digits, sizeof digits, "%.0f", x), k = 0;
    for (size_t i = 0; i < n && k < 30; i++) {
        out[k++] = digits[i];
        if ((n - i - 1) % 3 == 0 && i + 1 < n)
            out[k++] = ',';
    }
    out[k] = 0;
    return out;
}

const char *cli_size_text(double bytes, char out[32])
{
    static const char *const unit[] = {"B", "kB", "MB", "GB", "TB"};
    int u = 0;
    for (; bytes >= 1000 && u < 4; u++)
        bytes /= 1000;
    (void)snprintf(out, 32, u == 0 ? "%.0f %s" : "%.1f %s", bytes, unit[u]);
    return out;
}

void cli_progress_text(const struct json *s, char out[256])
{
    double eta = cli_number(s, "eta_seconds"), loss = cli_number(s, "loss"),
           rate = cli_number(s, "rate");
    const char *waiting = json_as_string(json_get(s, "waiting"), NULL);
    if (waiting != NULL) {
        (void)snprintf(out, 256, "%.255s", waiting);
        return;
    }
    int n = snprintf(
        out, 256, "%-8.16s epoch %.0f   %.0f examples", json_as_string(json_get(s, "state"), "?"),
        json_as_number(json_get(s, "epoch"), 0), json_as_number(json_get(s, "examples"), 0));

    if (rate > 0) /* between epochs there is no rate */
        n += snprintf(out + n, 256 - (size_t)n, "   %.0f/s", rate);
    if (!isnan(loss))
        n += snprintf(out + n, 256 - (size_t)n, "   loss %.4f", loss);
    static const char *const figure[][2] = {{"train_auc", "auc"},
                                            {"train_rmse", "rmse"},
                                            {"valid_auc", "valid auc"},
                                            {"valid_rmse", "valid rmse"}};
    for (size_t i = 0; i < sizeof figure / sizeof figure[0]; i++)
        if (!isnan(cli_number(s, figure[i][0])))
            n += snprintf(out + n, 256 - (size_t)n, "   %s %.4f", figure[i][1],
                          cli_number(s, figure[i][0]));
    if (eta >= 90)
        (void)snprintf(out + n, 256 - (size_t)n, "   %.0f min left", eta / 60);
    else if (eta >= 0)
        (void)snprintf(out + n, 256 - (size_t)n, "   %.0f s left", eta);
}

static double teacher_auc(const struct json *r, const char *split)
{
    const char *of = json_as_string(json_get(r, "teacher_split"),
                                    json_absent(json_get(r, "test")) ? "valid" : "test");
    if (strcmp(of, split) == 0)
        return cli_number(r, "teacher_auc");
    return (double)NAN;
}

/* Prints "   NAME 0.1234" for a figure that has a value; AUC has none where all labels are
 * equal. */
static void figure_print(const struct json *of, const char *key, const char *name, int digits)
{
    double x = cli_number(of, key);
    if (isfinite(x))
        printf("   %s %.*f", name, digits, x);
}

/* Prints evaluations within epochs, if there were any; those at the ends of epochs stand above. */
static void evaluations_print(const struct json *r)
{
    const struct json *list = json_get(r, "evaluations");
    size_t count = json_count(list);
    if (count <= json_count(json_get(r, "epochs")))
        return;
    for (size_t i = 0; i < count; i++) {
        const struct json *v = json_array_at(list, i);
        printf("    batch %-8.0f valid", cli_number(v, "batch"));
        figure_print(v, "auc", "AUC", 4);
        figure_print(v, "logloss", "logloss", 4);
        figure_print(v, "rmse", "RMSE", 4);
        figure_print(v, "mae", "MAE", 4);
        puts(text_if(json_as_bool(json_get(v, "kept"), false), "   kept"));
    }
}

/* Prints the figures of a split or of one of its labels. */
static void figures_print(const struct json *of)
{
    figure_print(of, "auc", "AUC", 4);
    figure_print(of, "logloss", "logloss", 4);
    figure_print(of, "rmse", "RMSE", 4);
    figure_print(of, "mae", "MAE", 4);
    figure_print(of, "r2", "R2", 4);
    figure_print(of, "calibration", "calibration", 3);
    figure_print(of, "ne", "NE", 4);
    figure_print(of, "gauc", "group AUC", 4);
}

/* Labels that are numbers have figures of their own, which no mean over all labels shows. */
static void numbers_print(const struct json *of)
{
    const struct json *tasks = json_get(of, "tasks");
    for (size_t i = 0; i < json_count(tasks); i++) {
        const struct json *task = json_array_at(tasks, i);
        if (json_get(task, "rmse") == NULL)
            continue;
        printf("    %-12.32s", json_as_string(json_get(task, "label"), "label"));
        figures_print(task);
        putchar('\n');
    }
}

static void split_print(const struct json *r, const char *split)
{
    const struct json *of = json_get(r, split);
    double teacher = teacher_auc(r, split);
    if (!isfinite(cli_number(of, "auc")) && !isfinite(cli_number(of, "logloss")) &&
        !isfinite(cli_number(of, "rmse")))
        return;
    printf("    %-9s", split);
    figures_print(of);
    putchar('\n');
    numbers_print(of);
    if (!isnan(teacher))
        printf("    %-12s AUC %.4f   the best possible: the log was drawn from this teacher\n",
               "teacher", teacher);
}

static void quality_print(const struct json *r)
{
    if (json_count(json_get(r, "epochs")) > 0 || json_count(json_get(r, "evaluations")) > 0 ||
        !json_absent(json_get(r, "test")))
        printf("\n  quality\n");
    split_print(r, "valid");
    split_print(r, "test");
    cli_unseen_print(json_get(r, "valid"), "valid");
    cli_unseen_print(json_get(r, "test"), "test");
    size_t epochs = json_count(json_get(r, "epochs"));
    for (size_t i = 0; i < epochs; i++) {
        const struct json *p = json_array_at(json_get(r, "epochs"), i), *v = json_get(p, "valid");
        bool clicks = json_get(p, "train_loss") == NULL;
        printf("    epoch %-6.0f train %s %.4f", cli_number(p, "epoch"),
               clicks ? "logloss" : "loss", cli_number(p, clicks ? "train_logloss" : "train_loss"));
        figure_print(p, "train.auc", "AUC", 4);
        figure_print(p, "train.rmse", "RMSE", 4);
        figure_print(v, "auc", "valid AUC", 4);
        figure_print(v, "rmse", "valid RMSE", 4);
        figure_print(v, "mae", "MAE", 4);
        figure_print(v, "logloss", isfinite(cli_number(v, "auc")) ? "logloss" : "valid logloss", 4);
        putchar('\n');
    }
    evaluations_print(r);
}

static void time_print(const struct json *r)
{
    enum { PARTS = 6 };
    static const char *const part[PARTS] = {"read", "pull", "compute", "ring", "push", "wait"};
    static const char *const text[PARTS] = {"read, parse and hash", "pull rows",
                                            "forward and backward", "wait for a step",
                                            "push gradients",       "wait"};
    double sum = 0, x[PARTS];
    for (int i = 0; i < PARTS; i++) {
        char path[32];
        (void)snprintf(path, sizeof path, "time.%s", part[i]);
        x[i] = cli_number(r, path);
        if (isnan(x[i]))
            x[i] = 0;
        sum += x[i];
    }
    if (sum <= 0)
        return;
    printf("\n  where the workers' time went (stages overlap)\n");
    for (int i = 0; i < PARTS; i++) {
        int bar = (int)(x[i] / sum * 40 + 0.5);
        if (strcmp(part[i], "ring") == 0 && x[i] == 0) /* the servers kept the network */
            continue;
        printf("    %-22s %7.1f s  %3.0f %%  %.*s\n", text[i], x[i], x[i] / sum * 100, bar,
               "########################################");
    }
}

static void bottleneck_print(const struct json *r)
{
    const char *stage = json_as_string(json_get(r, "bottleneck.stage"), NULL);
    double faster = cli_number(r, "bottleneck.speedup_if_free");
    if (stage != NULL) {
        printf("    limited by %s, %.0f %% of the lanes' time with work", stage,
               cli_number(r, "bottleneck.share") * 100);
        if (!isnan(faster))
            printf("; without it about %.1f times as fast, then by %s", faster,
                   json_as_string(json_get(r, "bottleneck.next"), "?"));
        putchar('\n');
    }
    if (cli_number(r, "skipped_steps") > 0)
        printf("    %.0f steps skipped: their gradients overflowed\n",
               cli_number(r, "skipped_steps"));
}

static void tables_print(const struct json *r)
{
    char n[32];
    size_t tables = json_count(json_get(r, "tables"));
    if (tables > 0)
        printf("\n  tables\n");
    for (size_t i = 0; i < tables; i++) {
        const struct json *t = json_array_at(json_get(r, "tables"), i);
        printf("    %-12s %12s rows   digest %s\n", json_as_string(json_get(t, "name"), "?"),
               cli_number_text(cli_number(t, "rows"), n),
               json_as_string(json_get(t, "digest"), "-"));
        if (!json_absent(json_get(t, "age")))
            printf("    %-12s gradients were p50 %.0f, p99 %.0f, max %.0f steps old\n", "",
                   cli_number(t, "age.p50"), cli_number(t, "age.p99"), cli_number(t, "age.max"));
    }
}

void cli_word_print(FILE *f, const char *word)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./:=,+@%";
    if (word[0] != 0 && word[strspn(word, plain)] == 0) {
        fputs(word, f);
        return;
    }
    fputc('\'', f);
    for (const char *p = word; *p != 0; p++)
        if (*p == '\'')
            fputs("'\\''", f);
        else
            fputc(*p, f);
    fputc('\'', f);
}

/* Prints commands that can be typed as they stand. A job that was resumed keeps its consistency. */
static void next_print(const char *run_dir, const char *again, bool repeatable)
{
    fputs("  try next       ", stdout);
    cli_word_print(stdout, program_invocation_name);
    fputs(" tables --run-dir ", stdout);
    cli_word_print(stdout, run_dir);
    puts("     rows and bytes by field");
    if (!repeatable)
        printf("                 %s --set train.consistency=bsp     the same bits at every run\n",
               again);
    printf("                 %s --servers 2 --workers 2     kill -9 one of them: the job ends all "
           "the same\n",
           again);
}

/* Prints the backend of the workers and the reason for it, a line each, the first ones only. */
static void backends_print(const struct json *list)
{
    for (size_t i = 0; i < json_count(list) && i < BACKENDS_SHOWN; i++) {
        const struct json *b = json_array_at(list, i);
        const char *device = json_as_string(json_get(b, "device"), "");
        const char *why = json_as_string(json_get(b, "why"), "");
        printf("  %-14s %s: %s%s%s%s%s%s\n", text_if(i == 0, "computed by"),
               json_as_string(json_get(b, "name"), "?"),
               json_as_string(json_get(b, "backend"), "?"), text_if(device[0] != 0, ", "), device,
               text_if(why[0] != 0, " ("), why, text_if(why[0] != 0, ")"));
    }
    if (json_count(list) > BACKENDS_SHOWN)
        printf("                 and %zu more: `backends` of report.json\n",
               json_count(list) - BACKENDS_SHOWN);
}

void cli_day_text(const struct json *day, char out[256])
{
    char n[32];
    const char *from = json_as_string(json_get(day, "from"), "?"), *time = strchr(from, 'T');
    bool midnight = time != NULL && strncmp(time, "T00:00:00", 9) == 0;
    static const struct {
        const char *path, *name;
        int digits;
    } figure[] = {{"figures.auc", "AUC", 4},
                  {"figures.logloss", "logloss", 4},
                  {"figures.rmse", "RMSE", 4},
                  {"figures.mae", "MAE", 4},
                  {"figures.calibration", "calibration", 3}};
    int at = snprintf(out, 256, "day %.*s   %s examples", midnight ? (int)(time - from) : 40, from,
                      cli_number_text(cli_number(day, "examples"), n));
    for (size_t i = 0; i < sizeof figure / sizeof figure[0]; i++) /* a day may have none */
        if (!isnan(cli_number(day, figure[i].path)))
            at += snprintf(out + at, 256 - (size_t)at, "   %s %.*f", figure[i].name,
                           figure[i].digits, cli_number(day, figure[i].path));
}

/* Prints the seconds that this run did not spend on work. */
static void other_seconds_print(const struct json *r)
{
    double before = cli_number(r, "seconds_before"), vain = cli_number(r, "seconds_in_vain");
    if (before > 0)
        printf("  %.1f of the seconds were those of the run that it went on from\n", before);
    if (vain > 0)
        printf("  %.1f of the seconds were in vain: it went back to a checkpoint, %.0f times in "
               "all\n",
               vain, cli_number(r, "went_back"));
}

/* Prints the job and its result; a job that did not finish has no speed, but a reason. */
static void head_print(const struct json *r)
{
    char n[32];
    const char *reason = json_as_string(json_get(r, "reason"), NULL);
    printf("\n%s:", json_as_string(json_get(r, "job"), "job"));
    if (reason != NULL)
        printf(" %s: %s\n ", json_as_string(json_get(r, "state"), "failed"), reason);
    printf(" %s examples", cli_number_text(cli_number(r, "examples"), n));
    if (!isnan(cli_number(r, "seconds")))
        printf(" in %.1f s", cli_number(r, "seconds"));
    if (!isnan(cli_number(r, "examples_per_second")))
        printf(", %s examples a second", cli_number_text(cli_number(r, "examples_per_second"), n));
    putchar('\n');
    other_seconds_print(r);
}

/* Prints a word behind others on a line that is folded. column: where the next one begins. */
static void folded_print(const char *word, size_t *column)
{
    size_t bytes = strlen(word);
    if (*column + bytes > 96)
        *column = (size_t)printf("\n%25s", "") - 1;
    *column += bytes;
    fputs(word, stdout);
}

/* Prints the share of the examples that each expert has computed, a line or more for each level. */
static void experts_print(const struct json *list)
{
    double level = 0;
    const char *task = "";
    size_t column = 0;
    for (size_t i = 0; i < json_count(list); i++) {
        const struct json *item = json_array_at(list, i);
        const char *of = json_as_string(json_get(item, "task"), "shared");
        char word[128] = "";
        if (cli_number(item, "level") != level) {
            level = cli_number(item, "level");
            task = "";
            printf("%s  %-14s level %.0f:", text_if(i > 0, "\n"), text_if(i == 0, "experts"),
                   level);
            column = 25;
        }
        if (strcmp(of, task) != 0)
            (void)snprintf(word, sizeof word, " %.80s", of);
        task = of;
        (void)snprintf(word + strlen(word), sizeof word - strlen(word), " %.1f %%",
                       100 * cli_number(item, "share"));
        folded_print(word, &column);
    }
    if (json_count(list) > 0)
        folded_print(" of the examples\n", &column);
}

/* The ring of workers that kept the network; nothing for other jobs. */
static void ring_print(const struct json *r)
{
    char n[32], bytes[32], state[32];
    const struct json *ring = json_get(r, "ring");
    if (json_absent(ring))
        return;
    printf("  network        kept by %.0f workers, in ring number %.0f; at each step a worker "
           "sends %s bytes and waits %.2f ms; %s steps; %s bytes of optimizer state a worker\n",
           cli_number(ring, "members"), cli_number(ring, "rings"),
           cli_number_text(cli_number(ring, "bytes_a_step"), bytes),
           json_as_number(json_get(ring, "wait_ms_a_step"), 0),
           cli_number_text(cli_number(ring, "steps"), n),
           cli_number_text(cli_number(ring, "state_bytes"), state));
}

static void report_print(const struct json *r, const char *run_dir, const char *again)
{
    char n[32], s[32];
    head_print(r);
    cli_report_job_print(r);
    if (json_as_string(json_get(r, "warning"), NULL) != NULL)
        printf("\n  warning        %s\n", json_as_string(json_get(r, "warning"), ""));
    quality_print(r);
    for (size_t i = 0; i < json_count(json_get(r, "notes")); i++)
        printf("  note           %s\n", json_as_string(json_array_at(json_get(r, "notes"), i), ""));
    time_print(r);
    bottleneck_print(r);
    tables_print(r);
    printf("\n  batches        applied %s, skipped as already there %s\n",
           cli_number_text(cli_number(r, "batches.applied"), n),
           cli_number_text(cli_number(r, "batches.skipped"), s));
    if (!json_absent(json_get(r, "staleness")))
        printf("  staleness      p50 %.0f, p99 %.0f, max %.0f clocks\n",
               cli_number(r, "staleness.p50"), cli_number(r, "staleness.p99"),
               cli_number(r, "staleness.max"));
    if (!json_absent(json_get(r, "idle")))
        printf("  devices        waited %.0f %% of their time for one another\n",
               100 * cli_number(r, "idle"));
    experts_print(json_get(r, "experts"));
    ring_print(r);
    printf("  bad lines      %s\n", cli_number_text(cli_number(r, "bad_lines"), n));
    for (size_t i = 0; i < json_count(json_get(r, "bad_where")); i++)
        printf("                 %s\n",
               json_as_string(json_array_at(json_get(r, "bad_where"), i), ""));
    if (!json_absent(json_get(r, "events")))
        printf("  events         from %s to %s\n", json_as_string(json_get(r, "events.from"), ""),
               json_as_string(json_get(r, "events.to"), ""));
    if (cli_number(r, "clamped_times") > 0)
        printf(
            "  event times    %s examples were stamped in the future; they count as of a day past "
            "the coordinator's clock as the job began\n",
            cli_number_text(cli_number(r, "clamped_times"), n));
    if (cli_number(r, "outside_partition") > 0)
        printf("  event times    %s examples lie outside of the partition that their file's name "
               "says; their own times count\n",
               cli_number_text(cli_number(r, "outside_partition"), n));
    if (cli_number(r, "refused.batches") > 0)
        printf("  refused        %s batches for their gradients; quarantine.jsonl of the servers "
               "has them\n",
               cli_number_text(cli_number(r, "refused.batches"), n));
    if (cli_number(r, "peak_server_rss_bytes") > 0) /* a job shorter than a beat has none */
        printf("  server memory  %.0f MiB at its peak\n",
               cli_number(r, "peak_server_rss_bytes") / 1048576);
    backends_print(json_get(r, "backends"));
    if (run_dir == NULL)
        return;
    char page[2 * LIMIT_PATH];
    (void)snprintf(page, sizeof page, "%s/report.html", run_dir);
    bool made = access(page, F_OK) == 0;
    printf("\n  files          %s%s%s/report.json (every figure), %s/log/*.log\n",
           text_if(made, page), text_if(made, " (curves; opens in a browser), "), run_dir, run_dir);
    if (again != NULL)
        next_print(run_dir, again,
                   json_as_string(json_get(r, "from"), NULL) != NULL ||
                       strcmp(json_as_string(json_get(r, "consistency"), ""), "bsp") == 0);
}

void cli_report_print(const struct json *report, const char *run_dir, const char *again)
{
    struct json *r = json_printable(report);
    report_print(r, run_dir, again);
    json_free(r);
}
