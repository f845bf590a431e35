/* backend_cuda.c: the table of the CUDA module: memory and streams (stream.h, device.h), kernels
 * (ops_*.cu), matrix products (product.c). */
#include "dense/cuda/stream.h"

#include <stdlib.h>

const struct backend_ops *shoal_backend_v10(void);

static struct backend_ops ops = {
    .abi = BACKEND_ABI,
    .name = "cuda",
    .kernel = device_kernel,
    .about = device_about,
    .probe = device_probe,
    .memory = device_memory,
    .host = false,
    .range = 0,
    .granule = 128, /* rows that one tile of a matrix product covers */
    .stream_new = stream_new,
    .stream_free = stream_free,
    .stream_finish = stream_finish,
    .host_alloc = device_host_alloc,
    .host_free = device_host_free,
    .alloc = stream_alloc,
    .release = stream_release,
    .upload = device_upload,
    .download = device_download,
    .copy = cuda_copy,
    .zero = cuda_zero,
    .upload_strip = device_upload_strip,
    .download_strip = device_download_strip,
    .fetch = device_fetch,
    .after = device_after,
    .watch = device_watch,
    .waited = device_waited,
    .graph_begin = stream_graph_begin,
    .graph_end = stream_graph_end,
};

/* Called once, by backend_load, right after dlopen. It touches no device; probe does. */
const struct backend_ops *shoal_backend_v10(void)
{
    const char *exact = getenv("SHOAL_CUDA_EXACT");
    cuda_exact = ops.exact = exact != NULL && *exact && *exact != '0';
    cuda_act_fill(&ops);
    cuda_fm_fill(&ops);
    cuda_loss_fill(&ops);
    cuda_norm_fill(&ops);
    cuda_pool_fill(&ops);
    cuda_rows_fill(&ops);
    cuda_product_fill(&ops);
    cuda_interact_fill(&ops.interact);
    cuda_attention_fill(&ops.attention);
    cuda_mix_fill(&ops.mix);
    return &ops;
}
