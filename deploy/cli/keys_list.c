/* keys_list.c: `shoal keys list`: keys of a table that are erased, blocked or allowed by name. */
#include "deploy/cli/key.h"
#include "proto/base/assert.h"
#include "proto/base/key.h"
#include "proto/base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A list on its way to standard output: no more of it than a page is in memory. */
struct listing {
    bool as_json;
    struct {
        char name[LEGEND_NAME]; /* to print for people; "": it has none */
        char *member;           /* owned: `, "name": "C3"`; NULL: it has none */
        bool id;
    } field[LIMIT_FIELDS];
    uint64_t count[WIRE_KEY_ALLOW + 1];
};

static const char *const name_of[] = {
    [WIRE_KEY_ERASE] = "erased", [WIRE_KEY_BLOCK] = "blocked", [WIRE_KEY_ALLOW] = "allowed"};

/* The member as it stands in an object's text, behind a comma; NULL: no memory. */
static char *member_text(const char *member, const char *value)
{
    struct json *j = json_new_object();
    (void)json_set_string(j, member, value);
    char *text = json_text(j, 0);
    json_free(j);
    if (text == NULL)
        return NULL;
    size_t bytes = strlen(text);
    SHOAL_ASSERT(bytes >= 2 && text[0] == '{' && text[bytes - 1] == '}');
    text[0] = ' ';
    text[bytes - 1] = 0;
    return text;
}

static void fields_take(struct listing *l, const struct json *fields)
{
    for (size_t i = 0; i < json_count(fields); i++) {
        const struct json *one = json_array_at(fields, i);
        int64_t number = json_get_int(one, "field", -1);
        const char *name = json_get_string(one, "name", "");
        if (number < 0 || number >= (int64_t)LIMIT_FIELDS || name[0] == 0)
            continue;
        free(l->field[number].member);
        l->field[number].member = member_text("name", name);
        l->field[number].id = key_field_is_id(fields, (uint64_t)number);
        text_copy(l->field[number].name, sizeof l->field[number].name, name);
        text_clean(l->field[number].name);
    }
}

static void listing_free(struct listing *l)
{
    for (uint32_t i = 0; l != NULL && i < LIMIT_FIELDS; i++)
        free(l->field[i].member);
    free(l);
}

static void json_line(const struct listing *l, const struct wire_named *name, bool first)
{
    uint32_t field = key_field(name->key);
    uint64_t id = name->key & KEY_ID_MAX;
    printf("%s\n    {\"key\": \"0x%016" PRIx64 "\", \"field\": %u", text_if(!first, ","), name->key,
           field);
    if (field < LIMIT_FIELDS && l->field[field].member != NULL)
        printf(",%s", l->field[field].member);
    if (field < LIMIT_FIELDS && l->field[field].id)
        printf(", \"id\": %" PRIu64, id);
    printf(", \"named\": \"%s\"}", name_of[name->action]);
}

static void row_line(const struct listing *l, const struct wire_named *name)
{
    uint32_t field = key_field(name->key);
    uint64_t id = name->key & KEY_ID_MAX;
    printf("0x%016" PRIx64 "\t", name->key);
    if (field < LIMIT_FIELDS && l->field[field].name[0] != 0)
        printf("%s", l->field[field].name);
    else
        printf("%u", field);
    if (field < LIMIT_FIELDS && l->field[field].id)
        printf(":%" PRIu64, id);
    printf("\t%s\n", name_of[name->action]);
}

static uint64_t listed(const struct listing *l)
{
    return l->count[WIRE_KEY_ERASE] + l->count[WIRE_KEY_BLOCK] + l->count[WIRE_KEY_ALLOW];
}

static int page_print(void *context, const struct wire_named *names, uint32_t count)
{
    struct listing *l = context;
    for (uint32_t i = 0; i < count; i++) {
        if (l->as_json)
            json_line(l, &names[i], listed(l) == 0);
        else
            row_line(l, &names[i]);
        l->count[names[i].action]++;
    }
    return 0;
}

static void sums_print(const struct listing *l)
{
    const uint64_t *n = l->count;
    char all[32], erased[32], blocked[32], allowed[32];
    if (l->as_json)
        printf("%s],\n  \"erased\": %" PRIu64 ",\n  \"blocked\": %" PRIu64
               ",\n  \"allowed\": %" PRIu64 "\n}\n",
               text_if(listed(l) > 0, "\n  "), n[WIRE_KEY_ERASE], n[WIRE_KEY_BLOCK],
               n[WIRE_KEY_ALLOW]);
    else
        fprintf(stderr, "%s keys by name: %s erased, %s blocked, %s allowed\n",
                cli_number_text((double)listed(l), all),
                cli_number_text((double)n[WIRE_KEY_ERASE], erased),
                cli_number_text((double)n[WIRE_KEY_BLOCK], blocked),
                cli_number_text((double)n[WIRE_KEY_ALLOW], allowed));
}

static int list_print(struct option_line *o, struct reader *c, uint32_t table, struct listing *l,
                      struct err *e)
{
    struct key_place place;
    struct json *fields = NULL;
    if (key_place_open(o, c, &place, NULL) == 0)
        fields = key_fields(&place);
    key_place_close(&place);
    fields_take(l, fields);
    json_free(fields);
    l->as_json = option_given(o, "json");
    if (l->as_json) {
        char *member = member_text("table", reader_schema(c, table)->name);
        printf("{\n %s,\n  \"keys\": [", text_or(member, ""));
        free(member);
    }
    int rc = reader_names(c, table, page_print, l, e);
    if (rc == 0)
        sums_print(l);
    return rc;
}

int cli_keys_list(struct option_line *o, struct err *e)
{
    struct reader *c = NULL;
    uint32_t table = 0;
    if (o->words == 0)
        return err_set(e, SHOAL_E_USAGE, "name a table; see `shoal keys list --help`");
    struct listing *l = calloc(1, sizeof *l);
    if (l == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    int rc = reader_open(o, &c, e);
    if (rc == 0)
        rc = reader_table(c, o->word[0], &table, e);
    if (rc == 0)
        rc = list_print(o, c, table, l, e);
    reader_close(c);
    listing_free(l);
    return rc;
}
