/* keys.c: keys in a form for people. */
#include "proto/job/keys.h"
#include "proto/base/text.h"

#include "proto/job/optimizer.h"

#include <stdlib.h>
#include <string.h>

/* 1000000 becomes 1e6, 16777216 stays. */
static void number_text(double x, char out[32])
{
    (void)snprintf(out, 32, "%.6g", x);
    if (strtod(out, NULL) < x || strtod(out, NULL) > x)
        (void)snprintf(out, 32, "%.15g", x);
    char *e = strchr(out, 'e'), *from;
    if (e == NULL)
        return;
    from = e + 1 + (e[1] == '+');
    from += *from == '-';
    char *digits = from;
    while (*digits == '0')
        digits++;
    memmove(from, digits, strlen(digits) + 1);
    if (e[1] == '+')
        memmove(e + 1, e + 2, strlen(e + 2) + 1);
}

/* Puts '/' between the choices: a bar would end a table's cell. */
static void choices_text(const char *choices, char text[KEYS_TEXT_MAX])
{
    (void)snprintf(text, KEYS_TEXT_MAX, "`%s`", choices);
    for (char *p = text; *p != '\0'; p++)
        if (*p == '|')
            *p = '/';
}

const char *keys_values(const struct config_key *k, char text[KEYS_TEXT_MAX])
{
    char low[32], high[32];
    static const char *const any[] = {[CONFIG_INT] = "whole number",
                                      [CONFIG_SIZE] = "size",
                                      [CONFIG_FLOAT] = "number",
                                      [CONFIG_BOOL] = "`true/false`",
                                      [CONFIG_ANY] = NULL};
    if (k->type == CONFIG_ENUM) {
        choices_text(k->choices, text);
    } else if (k->min != 0 || k->max != 0) {
        number_text(k->min, low);
        number_text(k->max, high);
        (void)snprintf(text, KEYS_TEXT_MAX, "%s..%s%s%s", low, high, text_if(k->unit != NULL, " "),
                       text_or(k->unit, ""));
    } else {
        text_copy(text, KEYS_TEXT_MAX, text_or(text_or(k->values, any[k->type]), ""));
    }
    return text;
}

static double fact_of(const struct config_key *k, const struct optimizer_facts *facts)
{
    double x;
    memcpy(&x, (const char *)facts + k->fact, sizeof x);
    return x;
}

/* "0.05; adam 0.001": the first kind's value, then those that differ. */
static void fact_text(const struct config_key *k, char text[KEYS_TEXT_MAX])
{
    const struct optimizer_facts *first = optimizer_facts(0), *facts;
    char number[32];
    number_text(fact_of(k, first), number);
    int at = snprintf(text, KEYS_TEXT_MAX, "%s", number);
    for (uint32_t kind = 1; (facts = optimizer_facts(kind)) != NULL && at < KEYS_TEXT_MAX; kind++)
        if (fact_of(k, facts) < fact_of(k, first) || fact_of(k, facts) > fact_of(k, first)) {
            number_text(fact_of(k, facts), number);
            at += snprintf(text + at, (size_t)(KEYS_TEXT_MAX - at), "; %s %s", facts->name, number);
        }
}

const char *keys_preset(const char *preset, const char *key)
{
    for (const struct keys_preset *p = keys_presets; p->preset != NULL; p++)
        if (strcmp(p->preset, preset) == 0 && strcmp(p->key, key) == 0)
            return p->value;
    return NULL;
}

/* "; monolith 240": the presets that give the key another value. */
static void presets_text(const struct config_key *k, char text[KEYS_TEXT_MAX])
{
    for (const struct keys_preset *p = keys_presets; p->preset != NULL; p++) {
        size_t at = strlen(text);
        const char *mark = text_if(k->type == CONFIG_ENUM || k->type == CONFIG_BOOL, "`");
        if (strcmp(p->key, k->path) == 0 &&
            (strncmp(text + strlen(mark), p->value, strlen(p->value)) != 0 ||
             strchr(";`", text[strlen(mark) + strlen(p->value)]) == NULL))
            (void)snprintf(text + at, KEYS_TEXT_MAX - at, "; %s %s%s%s", p->preset, mark, p->value,
                           mark);
    }
}

static void plain_default(const struct config_key *k, char text[KEYS_TEXT_MAX])
{
    bool number = k->type == CONFIG_INT || k->type == CONFIG_SIZE || k->type == CONFIG_FLOAT;
    bool zero = k->fallback != NULL && strcmp(k->fallback, "0") == 0 && k->min <= 0;
    if (k->fact != 0)
        fact_text(k, text);
    else if (k->otherwise != NULL)
        (void)snprintf(text, KEYS_TEXT_MAX, "%s%s", text_if(number && zero, "0: "), k->otherwise);
    else if (k->fallback == NULL || k->fallback[0] == '\0')
        text[0] = '\0';
    else if (number)
        text_copy(text, KEYS_TEXT_MAX, k->fallback);
    else if (k->type == CONFIG_LIST && strcmp(k->fallback, "auto") != 0)
        (void)snprintf(text, KEYS_TEXT_MAX, "`[%s]`", k->fallback);
    else
        (void)snprintf(text, KEYS_TEXT_MAX, "`%s`", k->fallback);
}

const char *keys_default(const struct config_key *k, char text[KEYS_TEXT_MAX])
{
    plain_default(k, text);
    presets_text(k, text);
    return text;
}

/* Prints text without back quotes, and only the words of a link. */
static void plain_print(const char *text, FILE *f)
{
    for (const char *p = text; *p != '\0'; p++)
        if (*p == ']' && p[1] == '(' && strchr(p, ')') != NULL)
            p = strchr(p, ')');
        else if (*p != '`' && !(*p == '[' && strstr(p, "](") != NULL))
            fputc(*p, f);
}

void keys_print(const struct config_key *keys, FILE *f)
{
    char text[KEYS_TEXT_MAX];
    for (const struct config_key *k = keys; k->path != NULL; k++) {
        fprintf(f, "  %-18s ", k->path);
        plain_print(keys_values(k, text), f);
        if (keys_default(k, text)[0] != '\0') {
            fputs(" (", f);
            plain_print(text, f);
            fputc(')', f);
        }
        if (k->text != NULL) {
            fputs(": ", f);
            plain_print(k->text, f);
        }
        fputc('\n', f);
    }
}
