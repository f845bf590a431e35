/* tables.h: figures of tables as text. */
#ifndef DEPLOY_CLI_TABLES_H
#define DEPLOY_CLI_TABLES_H

#include "proto/base/json.h"

/* fields: of key_fields, or NULL. */
void tables_print(const struct json *census, const struct json *fields);
/* What `shoal-worker count` found, each of its tables with row_memory_bytes. */
void tables_print_sample(const struct json *count);

#endif
