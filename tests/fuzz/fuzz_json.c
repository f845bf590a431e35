/* fuzz_json.c: any text as JSON: a peer's status and report. A value that was read can be written
 * and read again. */
#include "proto/base/json.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct json *j = NULL, *again = NULL;
    struct err e;
    if (json_parse((const char *)data, size, &j, &e) != 0)
        return 0;
    (void)json_as_number(json_get(j, "test.auc"), 0);
    (void)json_as_int(json_get(j, "epochs.0.epoch"), 0);
    (void)json_as_bool(json_array_at(j, 0), false);
    (void)json_as_string(json_get(j, "tables.0.name"), "");
    char *text = json_text(j, 2);
    if (text == NULL || json_parse(text, strlen(text), &again, &e) != 0)
        abort();
    free(text);
    json_free(again);
    json_free(j);
    return 0;
}
