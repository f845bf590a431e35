"""smoke: the first ten seconds of each half: the module loads, one product, a step of each model, first with every launch waited for, then not.
What fails here fails everywhere, so the half ends."""


ALL_KINDS = ["lr", "fm", "fwfm", "wide_deep", "deepfm", "ipnn", "dcnv2", "dlrm", "xdeepfm", "autoint", "finalmlp", "din", "mmoe", "ple"]
KINDS = ["deepfm", "dcnv2", "dlrm"]


def smoke(kinds):
    def stage(s):
        s.want(["smoke"])
        if not (s.place.bin / f"libshoal_{s.module}.so").exists():
            s.fail(f"{s.place.bin} has no libshoal_{s.module}.so: build with CUDA (deploy/setup release where nvcc is) "
                   "or unpack an archive of tests/gpu/pack")
            s.stopped = True
            return
        size = ["--batch", "8", "--rows", "520"] if s.dry else ["--batch", "256", "--rows", "5200"]
        step = ["--steps", "1", *size, "whole", *kinds]
        for name, words, env in (("one product", ["product"], {"CUDA_LAUNCH_BLOCKING": "1"}),
                                 ("a step of each model, launches waited for", step, {"CUDA_LAUNCH_BLOCKING": "1"}),
                                 ("a step of each model", step, {})):
            begin = len(s.failures)
            found = s.gpu_step(f"smoke: {name}", words, 40, s.place.env(**env))
            if len(s.failures) > begin or len(found) != max(1, len(kinds) if "whole" in words else 1):
                s.stopped = True
                return
        s.figure("smoke", round(s.took(), 1))
    return stage
