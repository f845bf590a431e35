/* fuzz_coord_config.c: any text as coordinator.yaml. */
#include "server/server_config.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct coord_config c;
    struct err e;
    (void)server_config_parse_coordinator((const char *)data, size, "fuzz", NULL, &c, &e);
    return 0;
}
