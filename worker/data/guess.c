/* guess.c: lists of names. A name is cut into words at each byte that is no letter and no
 * digit, and between a small and a capital letter: "user_id", "userId" and "user-id" are alike. */
#include "worker/data/guess.h"

#include "proto/base/limits.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Writes the words of a name in small letters, a blank around each: " user id ". */
static void words_of(const char *name, char out[2 * LIMIT_NAME + 3])
{
    size_t n = 0;
    bool small = false;
    out[n++] = ' ';
    for (const char *p = name; *p != '\0' && n < 2 * LIMIT_NAME; p++) {
        unsigned char c = (unsigned char)*p;
        if (isupper(c) && small)
            out[n++] = ' ';
        if (isalnum(c) || c >= 0x80)
            out[n++] = (char)tolower(c);
        else if (out[n - 1] != ' ')
            out[n++] = ' ';
        small = islower(c);
    }
    if (out[n - 1] != ' ')
        out[n++] = ' ';
    out[n] = '\0';
}

/* The place from 1 of the first entry that is the whole name; 0: none. */
static uint32_t is_one(const char *name, const char *const *list)
{
    char words[2 * LIMIT_NAME + 3], entry[64];
    words_of(name, words);
    for (uint32_t i = 0; list[i] != NULL; i++) {
        (void)snprintf(entry, sizeof entry, " %s ", list[i]);
        if (strcmp(words, entry) == 0)
            return i + 1;
    }
    return 0;
}

/* True when an entry is a word, or adjacent words, of the name. */
static bool has_one(const char *name, const char *const *list)
{
    char words[2 * LIMIT_NAME + 3], entry[64];
    words_of(name, words);
    for (uint32_t i = 0; list[i] != NULL; i++) {
        (void)snprintf(entry, sizeof entry, " %s ", list[i]);
        if (strstr(words, entry) != NULL)
            return true;
    }
    return false;
}

uint32_t guess_label(const char *name)
{
    static const char *const list[] = {
        "label",     "click",         "clicked",     "is click",    "isclick",       "is clicked",
        "clk",       "target",        "y",           "labels",      "clicks",        "conversion",
        "converted", "is conversion", "cvr",         "buy",         "bought",        "purchase",
        "purchased", "is buy",        "order",       "ordered",     "is attributed", "response",
        "outcome",   "class",         "is ad click", "like",        "liked",         "is like",
        "follow",    "share",         "install",     "installed",   "long view",     "finish",
        "watched",   "survived",      "result",      "score label", "label click",   "click label",
        NULL};
    return is_one(name, list);
}

bool guess_grade(const char *name)
{
    static const char *const list[] = {"rating",  "ratings", "stars",        "star", "grade",
                                       "overall", "score",   "rating float", NULL};
    return is_one(name, list) != 0;
}

bool guess_amount(const char *name)
{
    static const char *const list[] = {"watch time", "watchtime", "play time", "playtime", "dwell",
                                       "duration",   "minutes",   "seconds",   "price",    "amount",
                                       "revenue",    "spend",     "sales",     "value",    "ltv",
                                       "gmv",        "rating",    "ratings",   "score",    NULL};
    return has_one(name, list);
}

bool guess_time(const char *name)
{
    static const char *const list[] = {"time",     "timestamp", "ts",      "date",       "datetime",
                                       "day",      "hour",      "dt",      "event time", "when",
                                       "unixtime", "epoch",     "created", "at",         NULL};
    return has_one(name, list);
}

bool guess_quantity(const char *name)
{
    static const char *const list[] = {
        "age",    "price",        "count",        "cnt",      "counts",   "num",      "number",
        "amount", "amt",          "qty",          "quantity", "duration", "length",   "size",
        "rate",   "ratio",        "ctr",          "days",     "minutes",  "seconds",  "distance",
        "budget", "bid",          "income",       "salary",   "balance",  "freq",     "frequency",
        "total",  "avg",          "mean",         "sum",      "width",    "height",   "weight",
        "value",  "cost usd",     "revenue",      "views",    "score",    "affinity", "probability",
        "fnlwgt", "capital gain", "capital loss", NULL};
    return has_one(name, list);
}

bool guess_identity(const char *name)
{
    static const char *const list[] = {
        "id",       "ids",    "user", "item",    "ad",      "site",     "app",      "device",
        "campaign", "code",   "zip",  "zipcode", "ip",      "category", "cat",      "brand",
        "movie",    "member", "city", "region",  "country", "type",     "creative", "advertiser",
        "product",  "sku",    "page", "query",   "session", "shop",     "seller",   "uid",
        "iid",      "pid",    "cid",  NULL};
    return has_one(name, list);
}

bool guess_user(const char *name)
{
    static const char *const list[] = {"user",     "user id",     "uid",         "userid",
                                       "member",   "visitor",     "member id",   "visitor id",
                                       "customer", "customer id", "reviewer id", "user id token",
                                       "account",  "account id",  NULL};
    return is_one(name, list) != 0;
}

bool guess_weight(const char *name)
{
    static const char *const list[] = {"sample weight",     "example weight", "row weight",
                                       "importance weight", "weights",        NULL};
    return is_one(name, list) != 0;
}

bool guess_propensity(const char *name)
{
    static const char *const list[] = {"propensity", "pscore", NULL};
    return has_one(name, list);
}

bool guess_is_name(const char *name, uint32_t bytes)
{
    char text[LIMIT_NAME];
    if (bytes == 0 || bytes >= sizeof text)
        return false;
    memcpy(text, name, bytes);
    text[bytes] = '\0';
    return guess_label(text) != 0 || guess_grade(text) || guess_time(text) ||
           guess_identity(text) || guess_quantity(text);
}

/* ---- files ----------------------------------------------------------------------------------- */

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

enum guess_role guess_role(const char *path)
{
    static const char *const train[] = {"train", "training", "trn", "tr", NULL};
    static const char *const valid[] = {"valid", "validation", "val", "dev", "eval", "va", NULL};
    static const char *const test[] = {"test", "testing", "tst", "holdout", "te", NULL};
    char base[LIMIT_NAME];
    (void)snprintf(base, sizeof base, "%.*s", LIMIT_NAME - 1, base_of(path));
    for (char *p = base; *p != '\0'; p++) /* "train1" and "test00" */
        if (isdigit((unsigned char)*p))
            *p = ' ';
    if (has_one(base, train))
        return GUESS_TRAIN;
    if (has_one(base, valid))
        return GUESS_VALID;
    return has_one(base, test) ? GUESS_TEST : GUESS_NO_ROLE;
}

bool guess_ends(const char *path, const char *ending)
{
    static const char *const packed[] = {".gz", ".zst", ".bz2", ".xz"};
    char base[LIMIT_NAME], with[32];
    (void)snprintf(base, sizeof base, "%.*s", LIMIT_NAME - 1, base_of(path));
    for (char *p = base; *p != '\0'; p++)
        *p = (char)tolower((unsigned char)*p);
    size_t n = strlen(base);
    for (size_t i = 0; i < sizeof packed / sizeof packed[0]; i++) {
        size_t m = strlen(packed[i]);
        if (n > m && strcmp(base + n - m, packed[i]) == 0) {
            base[n - m] = '\0';
            n -= m;
        }
    }
    (void)snprintf(with, sizeof with, ".%s", ending);
    size_t m = strlen(with);
    return n > m && strcmp(base + n - m, with) == 0;
}
