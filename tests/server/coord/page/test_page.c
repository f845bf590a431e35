/* test_page.c: the status page: what it says, in which order, and that no text of others gets out
 * of its place. */
#include "proto/base/json.h"
#include "proto/base/rng.h"
#include "server/coord/page/page.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *page_of(const char *figures, double age_s)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    const struct page_figures f = {figures, figures != NULL ? strlen(figures) : 0, age_s};
    page_write(&f, out);
    ck_assert_int_eq(fclose(out), 0);
    return text;
}

static uint32_t times(const char *text, const char *part)
{
    uint32_t n = 0;
    for (const char *at = strstr(text, part); at != NULL; at = strstr(at + 1, part))
        n++;
    return n;
}

static void in_order(const char *page, const char *const *part, size_t parts)
{
    const char *at = page;
    for (size_t i = 0; i < parts; i++) {
        const char *found = strstr(at, part[i]);
        ck_assert_msg(found != NULL, "%s is not there, or stands too early", part[i]);
        at = found;
    }
}

static const char FAULTY[] =
    "{\"status\": {\"job\": \"ctr\", \"state\": \"train\", \"epoch\": 2, \"epochs\": 5,"
    "\"examples\": 1234567, \"rate\": 48012, \"loss\": 0.45, \"train_auc\": 0.7812,"
    "\"staleness\": {\"p50\": 1, \"p99\": 2, \"max\": 3},"
    "\"time\": {\"read\": 1, \"pull\": 2, \"compute\": 5, \"push\": 1, \"wait\": 1},"
    "\"waiting\": \"waits for server b\", \"waiting_seconds\": 12.4,"
    "\"problems\": [\"server b is not heard for 13 s: start it again\"],"
    "\"problem_seconds\": [13.2],"
    "\"servers\": [{\"name\": \"a\", \"shard\": 0, \"ready\": true, \"silent_ms\": 20,"
    "\"rows\": 1000, \"rss_bytes\": 400000000, \"memory_max\": 500000000, \"pull_rate\": 1500},"
    "{\"name\": \"b\", \"shard\": 1, \"ready\": false, \"silent_ms\": 13000, \"rows\": 900}],"
    "\"workers\": [{\"name\": \"w1\", \"worker\": 7, \"silent_ms\": 100, \"rate\": 480,"
    "\"examples\": 5000}],"
    "\"cluster\": {\"copies\": [{\"shard\": 0, \"leader\": \"a\", \"copies\": [{\"name\": \"a\","
    "\"leads\": true, \"in_sync\": true, \"silent_ms\": 9}, {\"name\": \"b\", \"in_sync\": true,"
    "\"silent_ms\": 9, \"lag\": 12, \"lag_bytes\": 3000, \"lag_ms\": 40}]}, {\"shard\": 1,"
    "\"leader\": \"b\", \"copies\": [{\"name\": \"c\", \"in_sync\": false, \"silent_ms\": 7000,"
    "\"out_ms\": 61000}]}]}, \"lanes\": [{\"lane\": 3, \"worker\": 7, \"batch\": 44}]},"
    "\"curve\": {\"examples\": [100, 200, 300], \"logloss\": [0.6, null, 0.45],"
    "\"rate\": [null, 10, 20]}, \"auc\": {\"examples\": [100], \"auc\": [0.5]},"
    "\"map\": {\"tablets\": 6, \"cell\": 1, \"shards\": [{\"shard\": 0, \"tablets\": 4,"
    "\"load\": 0.75, \"cells\": \"0199\"}, {\"shard\": 1, \"tablets\": 2, \"load\": 0.25,"
    "\"cells\": \"15\"}]}, \"jobs\": [{\"number\": 6, \"job\": \"old\", \"state\": \"failed\","
    "\"reason\": \"no such file\"}]}";

START_TEST(page_tells_first_what_is_wrong_then_jobs_then_servers)
{
    static const char *const part[] = {
        "(2) ctr", /* the title: how much is wrong */
        "<main>",
        "2 things are wrong</h2>",
        "waits for server b",
        "found for 12 s",
        "server b is not heard for 13 s: start it again",
        "found for 13 s",
        "Job <bdi>ctr</bdi>",
        "1,234,567 examples",
        "48.0 k",
        "0.7812",
        "Logloss <small>last point</small> <b>0.4500</b>",
        "pull <b>20 %</b>",
        "Servers <small>1 of 2 shards ready</small>",
        "1 <bdi>b</bdi>",
        "not heard for 13 s",
        "0 <bdi>a</bdi>",
        "75.0&nbsp;%",
        "Copies <small>1 of 2 in sync",
        "1 <bdi>c</bdi>",
        "not heard for 7 s; not in sync for 1 min 1 s",
        "0 <bdi>b</bdi>",
        "in sync</td><td>12</td><td>3.00 kB</td><td>40</td>",
        "6 tablets on 2 shards",
        "w1",
        "3 <small>(44)</small>",
        "no such file",
        "</main>",
    };
    char *page = page_of(FAULTY, 0.4);
    in_order(page, part, sizeof part / sizeof part[0]);
    ck_assert_ptr_null(strstr(page, "Nothing is wrong"));
    ck_assert_ptr_null(strstr(page, "AUC before")); /* one point is no curve */
    ck_assert_ptr_null(strstr(page, "nan"));
    free(page);
}
END_TEST

START_TEST(page_says_when_nothing_is_wrong_and_when_it_is_old)
{
    static const char good[] =
        "{\"status\": {\"job\": \"j\", \"state\": \"done\", \"problems\": []}}";
    char *page = page_of(good, 1);
    ck_assert_ptr_nonnull(strstr(page, "Nothing is wrong."));
    free(page);
    page = page_of(good, 65);
    ck_assert_ptr_nonnull(strstr(page, "has not made new figures for 1 min 5 s"));
    ck_assert_ptr_null(strstr(page, "Nothing is wrong."));
    free(page);
    page =
        page_of("{\"status\": {\"job\": \"j\", \"state\": \"failed\", \"error\": \"no rows\"}}", 0);
    ck_assert_ptr_nonnull(strstr(page, "The job failed:</b> no rows"));
    ck_assert_ptr_null(strstr(page, "Nothing is wrong."));
    free(page);
    page = page_of(NULL, 0);
    ck_assert_ptr_nonnull(strstr(page, "in a second"));
    free(page);
    page = page_of("{\"stands_by\": \"tcp://c1:7170\"}", 0);
    ck_assert_ptr_nonnull(strstr(page, "The one that leads is at</b> tcp://c1:7170"));
    free(page);
    page = page_of("{\"stands_by\": \"\"}", 0);
    ck_assert_ptr_nonnull(strstr(page, "does not know which one leads: see"));
    free(page);
    page = page_of("{\"stands_by\": \"\", \"why\": \"ZooKeeper: <lost>\"}", 0);
    ck_assert_ptr_nonnull(strstr(page, "which one leads (ZooKeeper: &lt;lost&gt;): see"));
    free(page);
}
END_TEST

/* Shards that have not come are told though the status has no sentence of them; moves tell of a
 * failure only when there was one; a failed job is one fault. */
START_TEST(page_tells_what_no_sentence_tells)
{
    static const struct {
        const char *status, *has, *lacks;
    } of[] = {
        {"\"servers\": [{\"ready\": false, \"silent_ms\": -1}], \"problems\": [],"
         "\"cluster\": {\"come\": [{\"name\": \"s0\"}]}",
         "1 of 1 shards are not ready (came: <bdi>s0</bdi>): start the other servers",
         "Nothing is wrong"},
        {"\"servers\": [{\"ready\": false, \"silent_ms\": 9000}], \"problems\": [\"told\"]",
         "1 thing is wrong", "shards are not ready"},
        {"\"cluster\": {\"moves\": {\"kind\": \"drain\", \"drains\": \"s2\", \"tablets\": 65,"
         "\"left\": 58, \"bytes\": 8550000, \"last_failure\": \"\"}}",
         "to empty server <bdi>s2</bdi>: 58 of 65 are left, 8.55 MB so far. ", "A move failed"},
        {"\"cluster\": {\"moves\": {\"tablets\": 65, \"left\": 5, \"bytes\": 1, \"seconds_left\": "
         "3,"
         "\"last_failure\": \"no room\"}}",
         "A move failed and is tried again:</b> no room", "to empty server"},
        {"\"job\": \"j\", \"state\": \"failed\", \"error\": \"no rows\"", "<title>(1) j",
         "Nothing is wrong"},
        {"\"idle\": [{\"name\": \"w\"}]", "1 without a job", "0 in the job"},
    };
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        char figures[512];
        (void)snprintf(figures, sizeof figures, "{\"status\": {%s}}", of[i].status);
        char *page = page_of(figures, 0);
        ck_assert_msg(strstr(page, of[i].has) != NULL, "%s: %.900s", of[i].has,
                      strstr(page, "<main>"));
        ck_assert_msg(strstr(page, of[i].lacks) == NULL, "%s: %.900s", of[i].lacks,
                      strstr(page, "<main>"));
        free(page);
    }
}
END_TEST

/* Marks of axes are round numbers that differ, also where the line hardly moves. */
START_TEST(page_marks_axes_with_round_numbers)
{
    static const struct {
        const char *auc, *mark[3];
    } of[] = {{"0.4932, 1.0", {">0.4<", ">0.6<", ">1.0<"}},
              {"0.99998, 0.99999", {">0.9995<", ">1.0000</text>", "least 1.0000"}},
              {"15.2, 0.0001", {"12.0\">20<", ">10<", "108.0\">0<"}},
              {"-1, -1", {">-1.0000</text>", ">-0.9995<", "least -1.0000"}}};
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        char figures[256];
        (void)snprintf(figures, sizeof figures,
                       "{\"status\": {\"job\": \"j\"}, \"auc\": {\"examples\": [1000, 912000], "
                       "\"auc\": [%s]}}",
                       of[i].auc);
        char *page = page_of(figures, 0);
        for (size_t m = 0; m < 3; m++)
            ck_assert_msg(times(page, of[i].mark[m]) == 1, "%s: %.900s", of[i].mark[m],
                          strstr(page, "class=\"curves\""));
        ck_assert_ptr_nonnull(strstr(page, ">500 k<"));
        ck_assert_ptr_nonnull(strstr(page, "at 912 k examples, least "));
        free(page);
    }
}
END_TEST

/* Many sentences do not push the rest off the screen; the headline counts them all. */
START_TEST(page_folds_sentences_after_the_first)
{
    char figures[512] = "{\"status\": {\"problems\": [\"p0\"";
    for (uint32_t i = 1; i < 9; i++)
        (void)snprintf(figures + strlen(figures), 16, ", \"p%u\"", i);
    strcat(figures, "], \"warning\": \"w\"}}");
    char *page = page_of(figures, 0);
    static const char *const part[] = {
        "<title>(9) ", "9 things are wrong",     "p4</li></ul><details", "4 more",
        "p5</li>",     "p8</li></ul></details>", " w</li></ul>"};
    in_order(page, part, sizeof part / sizeof part[0]);
    free(page);
}
END_TEST

/* Puts a text in the place of each string of FAULTY. */
static char *page_with(const char *text)
{
    struct json *of = NULL;
    static const char *const path[] = {"status",
                                       "status.servers.0",
                                       "status.servers.1",
                                       "status.workers.0",
                                       "jobs.0",
                                       "map.shards.0",
                                       "map.shards.1",
                                       "status.cluster.copies.0",
                                       "status.cluster.copies.0.copies.1"};
    static const char *const name[] = {
        "job",    "state",  "error",   "warning", "waiting", "endpoint", "name",
        "reason", "device", "backend", "began",   "leader",  "zone",     "checkpoint_failure"};
    ck_assert_int_eq(json_parse(FAULTY, strlen(FAULTY), &of, NULL), 0);
    for (size_t i = 0; i < sizeof path / sizeof path[0]; i++)
        for (size_t n = 0; n < sizeof name / sizeof name[0]; n++)
            json_set_string(json_get(of, path[i]), name[n], text);
    json_append_string(json_get(of, "status.problems"), text);
    json_set_string(of, "version", text);
    char *figures = json_text(of, 0), *page = page_of(figures, 0);
    json_free(of);
    free(figures);
    return page;
}

/* Names of jobs and servers, and sentences with names in them, are strangers' words. */
START_TEST(page_keeps_texts_of_others_in_their_places)
{
    static const char *const attack[] = {"<script>alert(1)</script>",
                                         "\"><img src=x onerror=a()>",
                                         "' onmouseover='a()",
                                         "</title><script>",
                                         "</main><b>",
                                         "<!--",
                                         "&lt;script&gt;",
                                         "\u202e\u2066",
                                         "@MAIN@"};
    char *clean = page_with("x");
    for (size_t i = 0; i < sizeof attack / sizeof attack[0]; i++) {
        char *page = page_with(attack[i]);
        static const char *const mark[] = {"<", ">", "\"", "'"};
        for (size_t m = 0; m < sizeof mark / sizeof mark[0]; m++)
            ck_assert_msg(times(page, mark[m]) == times(clean, mark[m]), "%s adds %s", attack[i],
                          mark[m]);
        ck_assert_uint_eq(times(page, "<script>"), 1);
        ck_assert_uint_eq(times(page, "\u202e") + times(page, "\u2066"), 0);
        free(page);
    }
    free(clean);
}
END_TEST

/* The policy names the page's own style and script, and no element has either. */
START_TEST(page_obeys_its_own_policy)
{
    char *page = page_of(FAULTY, 0);
    ck_assert_ptr_nonnull(strstr(page, "default-src 'none'"));
    ck_assert_uint_eq(times(page, "'sha256-"), 2);
    ck_assert_ptr_null(strstr(page, "unsafe"));
    const char *body = strstr(page, "<body>");
    ck_assert_uint_eq(times(body, " style="), 0);
    for (const char *at = strstr(body, " on"); at != NULL; at = strstr(at + 1, " on"))
        ck_assert_int_ne(at[1 + strspn(at + 1, "abcdefghijklmnopqrstuvwxyz")], '='); /* onclick= */
    ck_assert_uint_eq(times(page, "http:"), 0);
    ck_assert_uint_eq(times(page, "https:"), 0);
    ck_assert_uint_eq(times(page, "@"), times(page, "@media"));
    free(page);
}
END_TEST

static char *big_figures(uint32_t shards)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    fputs("{\"status\": {\"job\": \"big\", \"state\": \"train\", \"servers\": [", out);
    for (uint32_t i = 0; i < shards; i++)
        fprintf(out,
                "%s{\"name\": \"server-%u\", \"shard\": %u, \"ready\": %s, \"silent_ms\": 40,"
                "\"rows\": 123456, \"rss_bytes\": 1e9, \"memory_max\": 2e9, \"endpoint\":"
                "\"tcp://10.0.0.1:7171\"}",
                i > 0 ? "," : "", i, i, i == 700 ? "false" : "true");
    fputs("]}, \"map\": {\"tablets\": 16000, \"cell\": 4, \"shards\": [", out);
    for (uint32_t i = 0; i < shards; i++)
        fprintf(out, "%s{\"shard\": %u, \"tablets\": 16, \"load\": 0.001, \"cells\": \"1234\"}",
                i > 0 ? "," : "", i);
    fputs("]}}", out);
    ck_assert_int_eq(fclose(out), 0);
    return text;
}

START_TEST(page_of_a_thousand_shards_is_short_and_names_the_faulty_one)
{
    char *figures = big_figures(1000), *page = page_of(figures, 0);
    ck_assert_uint_lt(strlen(page), 700000);
    ck_assert_ptr_nonnull(strstr(page, "976 more"));
    ck_assert_uint_eq(times(page, "class=\"shard bad\""), 1);
    ck_assert_ptr_nonnull(strstr(page, "<p>700 <bdi>server-700</bdi>"));
    const char *first = strstr(strstr(page, "id=\"servers\""), "<tbody>");
    ck_assert(strstr(first, "700 <bdi>server-700<") < strstr(first, "0 <bdi>server-0<"));
    free(page);
    free(figures);
}
END_TEST

/* Figures are the coordinator's own, and yet nothing that they may hold breaks the page: types are
 * changed, members are lost. */
START_TEST(page_takes_figures_of_any_form)
{
    static const char *const put[] = {"null", "-1e300", "\"\"", "[]", "{}", "[[1]]", "true"};
    struct rng rng = rng_of((uint64_t)_i, 0, 0);
    for (uint32_t turn = 0; turn < 400; turn++) {
        char figures[4 * sizeof FAULTY];
        size_t at = 0;
        for (const char *p = FAULTY; *p != 0; p++) {
            bool value = p > FAULTY && p[-1] == ' ' && rng_next(&rng) % 12 == 0;
            if (!value || (*p != '"' && (*p < '0' || *p > '9') && *p != 't' && *p != 'f')) {
                figures[at++] = *p;
                continue;
            }
            const char *other = put[rng_next(&rng) % (sizeof put / sizeof put[0])];
            memcpy(figures + at, other, strlen(other));
            at += strlen(other);
            if (*p == '"')
                p = strchr(p + 1, '"');
            else
                p += strspn(p, "0123456789.truefals") - 1;
        }
        figures[at] = 0;
        char *page = page_of(figures, 0);
        ck_assert_ptr_nonnull(strstr(page, "</html>"));
        free(page);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("coord_page");
    TCase *t = suite_case(s, "page", 60, NULL, NULL);
    tcase_add_test(t, page_tells_first_what_is_wrong_then_jobs_then_servers);
    tcase_add_test(t, page_says_when_nothing_is_wrong_and_when_it_is_old);
    tcase_add_test(t, page_folds_sentences_after_the_first);
    tcase_add_test(t, page_tells_what_no_sentence_tells);
    tcase_add_test(t, page_marks_axes_with_round_numbers);
    tcase_add_test(t, page_keeps_texts_of_others_in_their_places);
    tcase_add_test(t, page_obeys_its_own_policy);
    tcase_add_test(t, page_of_a_thousand_shards_is_short_and_names_the_faulty_one);
    tcase_add_loop_test(t, page_takes_figures_of_any_form, 0, 4);
    return suite_main(s);
}
