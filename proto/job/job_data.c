/* job_data.c: data and features of job.yaml: the input's files, labels, columns and their use.
 *
 * A column may refer to another one (share, attend), which may come later in the list, so
 * references are checked when all columns are known. The worker checks whether the input has such
 * columns when it opens it. */
#include "proto/job/job_inner.h"

#include "proto/base/assert.h"
#include "proto/base/text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int character_take(const struct config *c, const char *path, char *out, struct err *e)
{
    const char *s = config_string(c, path);
    bool tab = strcmp(s, "\\t") == 0 || strcmp(s, "tab") == 0;
    *out = s[0];
    if (tab)
        *out = '\t';
    if (!tab && strlen(s) != 1)
        return job_refuse(c, path, e,
                          " must be one character, or tab; it is \"%s\", so write the input anew "
                          "with one: {cmd: \"sed 's/%s/;/g' FILE\"}",
                          s, s);
    return 0;
}

/* A quote or a line end between cells could not be told from one within a cell, and a word is most
 * likely the name of a delimiter. */
static int delimiter_take(const struct config *c, struct job *j, struct err *e)
{
    const char *path = "data.delimiter", *s = config_string(c, path);
    if (strcmp(s, "\\t") == 0 || strcmp(s, "tab") == 0)
        s = "\t";
    bool word = false;
    for (const char *p = s; *p != '\0' && s[1] != '\0'; p++)
        word |= isalnum((unsigned char)*p) != 0;
    if (s[0] == '\0' || strlen(s) >= DELIMITER_BYTES || word)
        return job_refuse(c, path, e,
                          " must be one character, or tab, or up to %u characters without letters "
                          "and digits; it is \"%s\"",
                          DELIMITER_BYTES - 1, s);
    if (s[strcspn(s, "\"\r\n")] != '\0')
        return job_refuse(c, path, e, " cannot have a quote or a line end in it");
    text_copy(j->data.delimiter, sizeof j->data.delimiter, s);
    return 0;
}

static int words_take(const struct config *c, const char *path, struct string_list *out,
                      struct err *e)
{
    if (config_list(c, path, out) != 0)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    if (out->count > LIMIT_CELL_WORDS)
        return job_refuse(c, path, e, ": at most %u words", LIMIT_CELL_WORDS);
    for (size_t i = 0; i < out->count; i++)
        if (strlen(out->item[i]) >= LIMIT_NAME)
            return job_refuse(c, path, e, ": a word has at most %u bytes", LIMIT_NAME - 1);
    return 0;
}

static bool in_list(const struct string_list *l, const char *word)
{
    bool in = false;
    for (size_t i = 0; i < l->count; i++)
        in |= strcmp(l->item[i], word) == 0;
    return in;
}

static int label_words_check(const struct config *c, const struct job *j, struct err *e)
{
    const struct string_list *positive = &j->data.label_positive;
    if (j->data.label_negative.count > 0 && positive->count == 0)
        return job_refuse(c, "data.label_negative", e,
                          ": name the labels that are 1 too, in data.label_positive");
    if (positive->count > 0 && j->data.label_parted)
        return job_refuse(c, "data.label_above", e,
                          " parts numbers, data.label_positive names words: keep one");
    for (size_t i = 0; i < positive->count; i++)
        if (in_list(&j->data.label_negative, positive->item[i]))
            return job_refuse(c, "data.label_negative", e,
                              ": \"%s\" is in data.label_positive too; take it out of one",
                              positive->item[i]);
    return 0;
}

/* Takes the keys about the text of cells (worker/data/clean.h). Event files hold what such keys
 * have made. */
static int cells_take(const struct config *c, struct job *j, struct err *e)
{
    static const char *const keys[] = {"data.label_positive", "data.label_negative", "data.missing",
                                       "data.decimal"};
    for (size_t i = 0; j->data.format == DATA_EVENTS && i < sizeof keys / sizeof keys[0]; i++)
        if (config_has(c, keys[i]))
            return job_refuse(c, keys[i], e,
                              " is about text: event files hold what shoal convert made of it; "
                              "take the key out");
    int rc = words_take(c, "data.label_positive", &j->data.label_positive, e);
    if (rc == 0)
        rc = words_take(c, "data.label_negative", &j->data.label_negative, e);
    if (rc == 0)
        rc = words_take(c, "data.missing", &j->data.missing, e);
    if (rc != 0)
        return rc;

    j->data.decimal_comma = config_enum(c, "data.decimal") != 0;
    if (j->data.decimal_comma && j->data.format != DATA_CSV)
        return job_refuse(c, "data.decimal", e, " is for csv");

    return label_words_check(c, j, e);
}

#define PATH_BYTES 96

/* "data.columns[i].key" */
static const char *path_of(size_t i, const char *key, char out[PATH_BYTES])
{
    (void)snprintf(out, PATH_BYTES, "data.columns[%zu].%s", i, key);
    return out;
}

/* Finds the column that `key` (share, attend) of column i names; it must be another one, and can be
 * a field. */
static int other_column(const struct config *c, const struct job *j, size_t i, const char *key,
                        const char *name, const struct column **out, struct err *e)
{
    char path[PATH_BYTES];
    (void)path_of(j->data.column[i].entry, key, path);
    *out = NULL;
    for (size_t k = 0; k < j->data.column_count; k++)
        if (strcmp(j->data.column[k].name, name) == 0)
            *out = &j->data.column[k];
    if (*out == NULL)
        return job_refuse(c, path, e, ": data.columns has no column %s", name);
    if (*out == &j->data.column[i])
        return job_refuse(c, path, e, " names the column itself");
    if ((*out)->type == COLUMN_SKIP || (*out)->type == COLUMN_LABEL)
        return job_refuse(c, path, e, ": column %s is %s, not a field", name,
                          (*out)->type == COLUMN_LABEL ? "a label" : "skipped");
    return 0;
}

static int share_check(const struct config *c, const struct job *j, size_t i, struct err *e)
{
    const struct column *other, *k = &j->data.column[i];
    char path[PATH_BYTES];
    if (k->share[0] == '\0')
        return 0;
    int rc = other_column(c, j, i, "share", k->share, &other, e);
    (void)path_of(k->entry, "share", path);
    if (rc == 0 && other->share[0] != '\0')
        rc = job_refuse(c, path, e, ": column %s itself shares with %s: name that one", k->share,
                        other->share);
    if (rc == 0 && other->id != k->id)
        rc = job_refuse(c, path, e,
                        ": column %s has ids (id: true) and %s has none, so no value of both is "
                        "one key: give both id: true, or none",
                        k->id ? k->name : other->name, k->id ? other->name : k->name);
    return rc;
}

static int attend_check(const struct config *c, const struct job *j, size_t i, struct err *e)
{
    const struct column *other, *k = &j->data.column[i];
    char path[PATH_BYTES];
    bool attention = k->pooling == POOL_ATTENTION;
    (void)path_of(k->entry, attention ? "pooling" : "attend", path);
    if (attention != (k->attend[0] != '\0'))
        return job_refuse(
            c, path, e,
            ": pooling attention and attend (the column of the target) belong together");
    if (!attention)
        return 0;
    if (k->type != COLUMN_MULTI)
        return job_refuse(c, path, e, ": attention is for columns of type multi");
    int rc = other_column(c, j, i, "attend", k->attend, &other, e);
    (void)path_of(k->entry, "attend", path);
    if (rc == 0 && other->type == COLUMN_MULTI)
        rc = job_refuse(c, path, e, ": column %s has several values, a target has one", k->attend);
    return rc;
}

static int padding_take(const struct config *c, const char *path, struct column *k, struct err *e)
{
    const char *s = config_string(c, path);
    if (strlen(s) >= sizeof k->padding)
        return job_refuse(c, path, e, " must have at most %u bytes",
                          (unsigned)sizeof k->padding - 1);
    if (s[0] != '\0' && k->type != COLUMN_MULTI)
        return job_refuse(c, path, e, " is for columns of type multi");
    text_copy(k->padding, sizeof k->padding, s);
    return 0;
}

/* A model that weighs values against a target has no use for the weights of the input. */
static int weighted_check(const struct config *c, const struct job *j, const struct column *k,
                          struct err *e)
{
    char path[PATH_BYTES];
    (void)path_of(k->entry, "weighted", path);
    bool entries = j->data.format == DATA_LIBFFM ||
                   (j->data.format == DATA_LIBSVM && j->data.libsvm != LIBSVM_PLACES);
    if (k->weighted_said && !k->weighted && entries)
        return job_refuse(c, path, e,
                          " is false, and entries of libsvm and libffm have weights: take it away, "
                          "or say data.libsvm: places");
    if (!k->weighted)
        return 0;
    if (k->type != COLUMN_MULTI)
        return job_refuse(c, path, e, " is for columns of type multi");
    if (k->separator == ':')
        return job_refuse(c, path, e,
                          ": ':' stands before a weight, so it cannot be the separator: write the "
                          "values as 12:0.5|7:1.2");
    if (k->separator == ',' && j->data.decimal_comma)
        return job_refuse(c, path, e,
                          ": with data.decimal: comma a weight has a comma, so it cannot be the "
                          "separator: write the values as 12:0,5|7:1,2");
    if (k->pooling == POOL_ATTENTION)
        return job_refuse(c, path, e,
                          ": pooling attention weighs the values itself: take sum or mean, or "
                          "weighted away");
    return 0;
}

/* Checks what the column's own type allows. */
static int column_check(const struct config *c, const struct job *j, const struct column *k,
                        struct err *e)
{
    char path[PATH_BYTES];
    bool category = k->type == COLUMN_CATEGORY || k->type == COLUMN_MULTI;
    if (k->max > 0 && k->type != COLUMN_MULTI)
        return job_refuse(c, path_of(k->entry, "max", path), e, " is for columns of type multi");
    if (k->id && !category)
        return job_refuse(c, path_of(k->entry, "id", path), e,
                          " is for columns of type category or multi");
    (void)path_of(k->entry, "whole", path);
    if (k->whole && k->type != COLUMN_CATEGORY)
        return job_refuse(c, path, e, " is for columns of type category");
    if (k->whole && j->data.format == DATA_EVENTS)
        return job_refuse(
            c, path, e,
            " is about text: event files hold what shoal convert made of it; take the "
            "key out");
    return weighted_check(c, j, k, e);
}

/* Checks references to other columns, which may come later in the list. */
static int columns_check(const struct config *c, const struct job *j, struct err *e)
{
    int rc = 0;
    if (j->data.rest_said)
        rc = column_check(c, j, &j->data.rest, e);
    for (size_t i = 0; i < j->data.column_count && rc == 0; i++) {
        rc = column_check(c, j, &j->data.column[i], e);
        if (rc == 0)
            rc = share_check(c, j, i, e);
        if (rc == 0)
            rc = attend_check(c, j, i, e);
    }
    return rc;
}

/* Reads one entry of data.columns, but for its name. */
static int column_take(const struct config *c, size_t i, struct column *k, struct err *e)
{
    char path[PATH_BYTES];
    k->entry = (uint32_t)i;
    k->type = (enum column_type)config_enum(c, path_of(i, "type", path));
    k->pooling = (enum pooling)config_enum(c, path_of(i, "pooling", path));
    k->id = config_bool(c, path_of(i, "id", path));
    k->weighted_said = config_has(c, path_of(i, "weighted", path));
    k->weighted = config_bool(c, path);
    k->whole = config_bool(c, path_of(i, "whole", path));
    k->max = (uint32_t)config_int(c, path_of(i, "max", path));
    int rc = character_take(c, path_of(i, "separator", path), &k->separator, e);
    if (rc == 0)
        rc = padding_take(c, path_of(i, "padding", path), k, e);
    if (rc == 0 && config_has(c, path_of(i, "share", path)))
        rc = job_name_take(c, path, "", k->share, e);
    if (rc == 0 && config_has(c, path_of(i, "attend", path)))
        rc = job_name_take(c, path, "", k->attend, e);
    if (rc != 0)
        return rc;
    return job_scale_take(c, i, k, e);
}

/* Splits "I1..I13" into "I", 1 and 13; false: the name is no range. */
static bool range_parse(const char *name, char prefix[LIMIT_NAME], unsigned long *from,
                        unsigned long *to)
{
    const char *dots = strstr(name, "..");
    if (dots == NULL)
        return false;
    const char *digits = dots, *second = dots + 2;
    while (digits > name && digits[-1] >= '0' && digits[-1] <= '9')
        digits--;
    size_t bytes = (size_t)(digits - name), places = (size_t)(dots - digits);
    if (places == 0 || places > 6 || strncmp(name, second, bytes) != 0)
        return false;
    second += bytes;
    size_t ends = strspn(second, "0123456789");
    if (ends == 0 || ends > 6 || second[ends] != 0)
        return false;
    (void)snprintf(prefix, LIMIT_NAME, "%.*s", (int)bytes, name);
    *from = strtoul(digits, NULL, 10);
    *to = strtoul(second, NULL, 10);
    return true;
}

/* Adds the columns of an entry: one, or those of a range of names. */
static int entry_add(const struct config *c, struct job *j, const struct column *k, struct err *e)
{
    char path[PATH_BYTES], prefix[LIMIT_NAME];
    unsigned long from = 0, to = 0;
    bool range = range_parse(k->name, prefix, &from, &to);
    (void)path_of(k->entry, "name", path);
    if (range && to < from)
        return job_refuse(c, path, e, ": the range %s has no column: its second number is smaller",
                          k->name);
    size_t count = range ? to - from + 1 : 1, most = LIMIT_FIELDS + LIMIT_NUMERIC;
    if (count > most || j->data.column_count > most - count)
        return job_refuse(c, path, e, ": data.columns names more than %zu columns", most);
    struct column *all =
        realloc(j->data.column, (j->data.column_count + count) * sizeof *j->data.column);
    if (all == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    j->data.column = all;
    for (size_t i = 0; i < count; i++) {
        struct column *to_fill = &all[j->data.column_count++];
        *to_fill = *k;
        if (range && snprintf(to_fill->name, LIMIT_NAME, "%.*s%lu", LIMIT_NAME - 8, prefix,
                              from + i) >= (int)LIMIT_NAME)
            return job_refuse(c, path, e, ": its names have more than %u bytes", LIMIT_NAME - 1);
    }
    return 0;
}

/* The entry called "*" is for all columns that no other entry names. */
static int rest_take(const struct config *c, struct job *j, const struct column *k, struct err *e)
{
    char path[PATH_BYTES];
    (void)path_of(k->entry, "name", path);
    if (j->data.rest_said)
        return job_refuse(c, path, e, ": an entry called * is there already");
    if (k->type == COLUMN_LABEL)
        return job_refuse(c, path, e, ": the other columns cannot all be the label");
    if (k->share[0] != 0 || k->attend[0] != 0)
        return job_refuse(c, path, e,
                          ": share and attend are for columns by name: give each an entry");
    if (j->data.format != DATA_CSV && j->data.format != DATA_TFRECORD &&
        j->data.format != DATA_EVENTS)
        return job_refuse(c, path, e,
                          ": * is for csv, tfrecord and events; name the columns, or a range of "
                          "them");
    j->data.rest = *k;
    j->data.rest_said = true;
    return 0;
}

static int columns_take(const struct config *c, struct job *j, struct err *e)
{
    char path[PATH_BYTES];
    int rc = 0;
    size_t entries = config_count(c, "data.columns");
    if (entries > LIMIT_FIELDS + LIMIT_NUMERIC)
        return err_set(e, SHOAL_E_CONFIG, "data.columns: at most %u", LIMIT_FIELDS + LIMIT_NUMERIC);
    for (size_t i = 0; i < entries && rc == 0; i++) {
        struct column k = {.entry = (uint32_t)i};
        rc = job_name_take(c, path_of(i, "name", path), "", k.name, e);
        if (rc == 0)
            rc = column_take(c, i, &k, e);
        if (rc == 0 && strcmp(k.name, "*") == 0)
            rc = rest_take(c, j, &k, e);
        else if (rc == 0)
            rc = entry_add(c, j, &k, e);
    }
    if (rc != 0)
        return rc;
    return columns_check(c, j, e);
}

static int labels_take(const struct config *c, struct job *j, struct err *e)
{
    struct string_list labels = {0};
    int rc = 0;
    if (config_list(c, "data.label", &labels) != 0)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    if (labels.count > LIMIT_TASKS)
        rc = job_refuse(c, "data.label", e, ": at most %u labels", LIMIT_TASKS);
    for (size_t i = 0; i < labels.count && rc == 0; i++) {
        if (strlen(labels.item[i]) >= LIMIT_NAME || labels.item[i][0] == '\0')
            rc = job_refuse(c, "data.label", e, ": a name must have 1 to %u bytes", LIMIT_NAME - 1);
        text_copy(j->data.label[i], LIMIT_NAME, labels.item[i]);
    }
    j->data.label_count = (uint32_t)labels.count;
    if (labels.count == 0) {
        j->data.label_count = 1;
        (void)snprintf(j->data.label[0], LIMIT_NAME, "0");
    }
    config_list_free(&labels);
    return rc;
}

/* Only the label of a csv or a TFRecord may be in any column: its column cannot be guessed, and a
 * wrong one would be learnt without an error. */
static int label_check(const struct config *c, const struct job *j, struct err *e)
{
    bool named = j->data.format == DATA_CSV || j->data.format == DATA_TFRECORD;
    bool told = !named || config_has(c, "data.label");
    for (size_t i = 0; i < j->data.column_count; i++)
        told |= j->data.column[i].type == COLUMN_LABEL;
    if (!told)
        return err_set(e, SHOAL_E_CONFIG,
                       "data.label is missing: name the %s that holds the label, such as --set "
                       "data.label=click%s",
                       j->data.format == DATA_CSV ? "csv's column" : "feature",
                       text_if(j->data.format == DATA_CSV, ", or by its number, counted from 0"));
    return 0;
}

/* "object:LIST" CONFIG_UNIT "OPEN" */
static int commands_take(const struct config *c, struct job *j, uint32_t split, struct err *e)
{
    const char *what, *list = job_input(j, split, &what)->item[0] + strlen("object:"),
                      *unit = strstr(list, CONFIG_UNIT);
    if (unit == NULL || unit == list || unit[1] == '\0' || strstr(unit + 1, CONFIG_UNIT) != NULL)
        return job_refuse(c, what, e,
                          ": an object needs list, a command that prints names, and open, one that "
                          "prints the object named $1");
    j->data.objects.of[split].list = strndup(list, (size_t)(unit - list));
    j->data.objects.of[split].open = strdup(unit + 1);
    if (j->data.objects.of[split].list == NULL || j->data.objects.of[split].open == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    return 0;
}

/* The first item that is not a file; NULL: all are files. */
static const char *stream_in(const struct string_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        if (strncmp(list->item[i], "cmd:", 4) == 0 || strcmp(list->item[i], "-") == 0)
            return list->item[i];
    return NULL;
}

#define KAFKA_TRIES 100u   /* a cluster that is away for hours ends no job */
#define KAFKA_GROW_MS 5000 /* ranges are complete at once, so a list is cheap */

/* Refuses settings that objects cannot follow. */
static int objects_check(const struct config *c, const struct job *j, uint32_t split, struct err *e)
{
    const char *key, *stream = stream_in(job_input(j, split, &key));
    bool files = j->data.objects.of[split].open == NULL;
    if (files && (split != 0 || !j->data.kafka.on))
        key = "data.objects";
    if (j->data.format == DATA_TFRECORD)
        return job_refuse(c, key, e,
                          ": objects are text or event files: convert TFRecord files to event "
                          "files (shoal convert), or name them without objects");
    if (config_has(c, "data.join"))
        return job_refuse(c, key, e,
                          ": a join reads the log as one, not by objects: join it once into event "
                          "files (shoal convert), or name files");
    if (files && stream != NULL)
        return job_refuse(c, key, e,
                          ": %s is no file, so it cannot be an object; say "
                          "{object: {list: .., open: ..}} for what commands read",
                          config_item_shown(stream));
    return 0;
}

static bool commands_in(const struct string_list *list)
{
    bool any = false;
    for (size_t i = 0; i < list->count; i++)
        any |= strncmp(list->item[i], "object:", strlen("object:")) == 0;
    return any;
}

/* Files of data.valid and data.test are objects, too, unless one of the inputs is a stream. */
static int split_objects(const struct config *c, struct job *j, uint32_t split, bool files,
                         struct err *e)
{
    const char *what;
    const struct string_list *list = job_input(j, split, &what);
    bool commands = commands_in(list);
    int rc = 0;
    if (commands && list->count > 1)
        return job_refuse(c, what, e,
                          ": {object: ..} stands alone: let its list command print all names");
    files = (files && list->count > 0 && (split == 0 || stream_in(list) == NULL)) ||
            (split == 0 && j->data.kafka.on);
    j->data.objects.of[split].on = commands || files;
    if (commands)
        rc = commands_take(c, j, split, e);
    if (rc != 0 || !j->data.objects.of[split].on)
        return rc;
    return objects_check(c, j, split, e);
}

/* True when files are objects: data.objects is true, or keys below it are set and the input has no
 * command that they could be for. data.objects.grow is for data.train alone and makes its files
 * objects in any case. */
static bool files_meant(const struct config *c, const struct job *j, uint32_t split)
{
    bool commands =
        commands_in(&j->data.train) || commands_in(&j->data.valid) || commands_in(&j->data.test);
    if (config_has_value(c, "data.objects"))
        return config_bool(c, "data.objects");
    return config_has(c, "data.objects") &&
           (!commands || (split == 0 && j->data.objects.grow_ms > 0));
}

static int objects_take(const struct config *c, struct job *j, struct err *e)
{
    int rc = 0;
    j->data.objects.quiet_s = (uint32_t)(config_size(c, "data.objects.quiet") / 1000);
    j->data.objects.tries = (uint32_t)config_int(c, "data.objects.tries");
    if (j->data.kafka.on && !config_has(c, "data.objects.tries"))
        j->data.objects.tries = KAFKA_TRIES;
    j->data.objects.leave_out = config_enum(c, "data.objects.failed") != 0;
    j->data.objects.grow_ms =
        (uint32_t)config_size_or(c, "data.objects.grow", j->data.kafka.on ? KAFKA_GROW_MS : 0);
    j->data.objects.all_new = config_bool(c, "data.objects.all_new");
    for (uint32_t split = 0; split < JOB_SPLITS && rc == 0; split++)
        rc = split_objects(c, j, split, files_meant(c, j, split), e);
    if (rc == 0 && j->data.objects.grow_ms > 0 && !j->data.objects.of[0].on)
        rc = job_refuse(c, "data.objects.grow", e,
                        ": only a log of objects grows: say data.objects: true, each file one, or "
                        "{object: {list: .., open: ..}}");
    if (rc == 0 && j->data.objects.all_new && j->data.objects.grow_ms == 0)
        rc = job_refuse(c, "data.objects.all_new", e,
                        ": only a log that grows (data.objects.grow) leaves out what its tables "
                        "have learnt: take the key away");
    return rc;
}

/* Rows of an input without a name (a command, standard input) would have no time, so data.partition
 * refuses such inputs. */
static int partition_take(const struct config *c, struct job *j, struct err *e)
{
    const char *key = "data.partition", *text = config_string(c, key);
    struct err why = {0};
    if (text[0] == '\0')
        return 0;
    if (partition_parse(text, &j->data.partition, &why) != 0)
        return job_refuse(c, key, e, ": %s", why.text);
    if (!zone_fits(&j->data.zone, j->data.partition.step))
        return job_refuse(c, key, e, ": in data.zone partitions are whole days, or parts of one");
    if (config_has(c, "data.join"))
        return job_refuse(c, key, e, ": a join goes by the times of rows: take it away");
    for (size_t i = 0; i < j->data.train.count; i++)
        if (strncmp(j->data.train.item[i], "cmd:", 4) == 0 ||
            strcmp(j->data.train.item[i], "-") == 0)
            return job_refuse(c, key, e, ": %s has no name that could tell a time",
                              config_item_shown(j->data.train.item[i]));
    return 0;
}

static int sample_take(const struct config *c, struct job *j, struct err *e)
{
    j->data.sample = config_float(c, "data.sample");
    if (!config_has(c, "data.sample_by"))
        return 0;
    int rc = job_name_take(c, "data.sample_by", "", j->data.sample_by, e);
    if (rc == 0 && j->data.sample == 1)
        rc = job_refuse(c, "data.sample_by", e,
                        ": data.sample is 1, so all examples are trained on: set it to the share "
                        "of the column's values, or take data.sample_by away");
    return rc;
}

int job_data_take(const struct config *c, struct job *j, struct err *e)
{
    SHOAL_ASSERT(j->table == NULL && j->features.fields.count == 0); /* job.c, 1 */
    if (!config_has(c, "data.train"))
        return err_set(e, SHOAL_E_CONFIG, "data.train is missing: name the files to train on");
    j->data.format = (enum data_format)config_enum(c, "data.format");
    j->data.libsvm = (enum libsvm_entries)config_enum(c, "data.libsvm");
    if (config_has(c, "data.libsvm") && j->data.format != DATA_LIBSVM)
        return job_refuse(c, "data.libsvm", e, " is for data.format: libsvm; take it away");
    if (config_list(c, "data.train", &j->data.train) != 0 ||
        config_list(c, "data.valid", &j->data.valid) != 0 ||
        config_list(c, "data.test", &j->data.test) != 0)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    if (j->data.train.count == 0)
        return job_refuse(c, "data.train", e, " is empty: name the files to train on");
    j->data.negatives = config_float(c, "data.negatives");
    if (sample_take(c, j, e) != 0)
        return SHOAL_E_CONFIG;
    if (config_has(c, "data.weight") && job_name_take(c, "data.weight", "", j->data.weight, e) != 0)
        return SHOAL_E_CONFIG;
    if (config_has(c, "data.time") && job_name_take(c, "data.time", "", j->data.time, e) != 0)
        return SHOAL_E_CONFIG;
    j->data.time_limit = (uint32_t)config_int(c, "data.time_limit");
    if (job_time_take(c, j, e) != 0 || job_zone_take(c, j, e) != 0 || partition_take(c, j, e) != 0)
        return SHOAL_E_CONFIG;
    j->data.label_above = config_float(c, "data.label_above");
    j->data.label_parted = config_has(c, "data.label_above");
    j->data.header = config_bool(c, "data.header");
    j->data.max_bad = config_float(c, "data.max_bad");
    j->data.shuffle = config_bool(c, "data.shuffle");
    uint64_t within = (uint64_t)config_size_or(c, "data.shuffle.within", 0);
    j->data.shuffle_within = (uint32_t)(within / 1000);
    j->data.shuffle_said = config_has_value(c, "data.shuffle") || j->data.shuffle_within > 0;
    if (within % 1000 != 0)
        return job_refuse(c, "data.shuffle.within", e, ": whole seconds are possible");
    if (!zone_fits(&j->data.zone, j->data.shuffle_within))
        return job_refuse(c, "data.shuffle.within", e,
                          ": in data.zone windows are of whole days, or parts of one");
    if (config_has_value(c, "data.shuffle") && j->data.shuffle_within > 0)
        return job_refuse(c, "data.shuffle.within", e, ": data.shuffle stands there too; keep one");
    if (j->data.shuffle_within > 0 && !job_timed(j))
        return job_refuse(c, "data.shuffle.within", e,
                          " is of event time: name its column in data.time");
    text_copy(j->data.cache, sizeof j->data.cache, config_string(c, "data.cache"));
    j->data.cache_max = config_size(c, "data.cache_max");
    int rc = delimiter_take(c, j, e);
    if (rc == 0)
        rc = cells_take(c, j, e);
    if (rc == 0)
        rc = job_kafka_take(c, j, e);
    if (rc == 0)
        rc = objects_take(c, j, e);
    if (rc == 0)
        rc = labels_take(c, j, e);
    if (rc == 0 && j->data.negatives < 1 && j->data.label_count > 1)
        rc = job_refuse(
            c, "data.negatives", e,
            " is for one label, data.label names %u: a line is left out only where no label is "
            "positive, so no constant corrects the predictions of a task; leave it out",
            j->data.label_count);
    if (rc == 0)
        rc = columns_take(c, j, e);
    if (rc != 0)
        return rc;
    return label_check(c, j, e);
}

int job_features_take(const struct config *c, struct job *j, struct err *e)
{
#define NUMBER(KIND, name, number) [DATA_##KIND] = number,
    static const enum number_transform of_format[] = {DATA_FORMATS(NUMBER)};
#undef NUMBER
    if (config_list(c, "features.fields", &j->features.fields) != 0)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    if (j->features.fields.count == 1 && strcmp(j->features.fields.item[0], "auto") == 0)
        config_list_free(&j->features.fields);
    j->features.fields_auto = j->features.fields.count == 0;
    j->features.number =
        (enum number_transform)config_enum_or(c, "features.number", (int)of_format[j->data.format]);
    return job_crosses_take(c, j, e);
}
