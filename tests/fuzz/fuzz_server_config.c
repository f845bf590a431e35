/* fuzz_server_config.c: any text as server.yaml. */
#include "proto/net/name.h"
#include "server/server_config.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct server_config c;
    struct err e;
    char endpoint[256], advertised[256];
    if (server_config_parse((const char *)data, size, "fuzz", NULL, &c, &e) != 0)
        return 0;
    /* every shard of an accepted file must have an endpoint */
    for (uint32_t shard = 0; shard < c.shards; shard++)
        if (server_config_endpoint(&c, shard, endpoint, &e) != 0)
            __builtin_trap();
    name_advertised(c.advertise, endpoint, "10.0.0.7", advertised);
    return 0;
}
