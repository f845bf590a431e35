/* format.c: the formats by number. */
#include "worker/data/format.h"

#define FORMAT(KIND, name, number) [DATA_##KIND] = &format_##name,
static const struct format *const formats[] = {DATA_FORMATS(FORMAT)};
#define NAME(KIND, name, number) [DATA_##KIND] = #name,
static const char *const names[] = {DATA_FORMATS(NAME)};

const struct format *format_of(enum data_format format)
{
    return formats[format];
}

const char *format_name(enum data_format format)
{
    return names[format];
}
