/* log_json.c: a line of the log as a JSON object, for containers. */
#include "proto/base/json.h"
#include "proto/base/log_inner.h"

#include <stdlib.h>
#include <string.h>

/* The members that only some lines have, and the place in the code. */
static struct json *fields_new(const struct log_record *r, const char *event)
{
    struct json *f = json_new_object();
    if (event[0] != '\0')
        json_set_string(f, "event", event);
    if (r->field != NULL)
        json_set_string(f, r->field, r->about);
    if (r->file != NULL) {
        const char *slash = strrchr(r->file, '/');
        json_set_string(f, "file", slash != NULL ? slash + 1 : r->file);
        json_set_int(f, "line", r->line);
        json_set_string(f, "function", r->function);
    }
    return f;
}

char *log_json_line(const struct log_record *r, const char *time, const char *level,
                    const char *event)
{
    char room[128];
    struct json *j = json_new_object();
    log_room(r->file, room, sizeof room);
    json_set_string(j, "time", time);
    json_set_string(j, "level", level);
    json_set_string(j, "program", r->program);
    json_set_string(j, "room", room);
    json_set_string(j, "text", r->text);
    json_set(j, "fields", fields_new(r, event));
    char *text = json_text(j, 0);
    json_free(j);
    if (text == NULL)
        return NULL;

    size_t bytes = strlen(text);
    char *line = realloc(text, bytes + 2);
    if (line == NULL) {
        free(text);
        return NULL;
    }
    line[bytes] = '\n';
    line[bytes + 1] = '\0';
    return line;
}
