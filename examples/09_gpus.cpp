// The composition of the headline on GPUs: a rank for each, NCCL between them, convolutions by
// cuDNN in fp16, two rings. The suite runs it on doubles of CUDA, cuDNN and NCCL.
// Run:     build/dev/examples/09_gpus
// Prints:  Trainer<ResNet8, MultiRing<2, fp16>, Warmup<Poly<2>>, Compute<fp16>>
//          2 GPUs  12 steps  loss 1.62 -> 0.76

#include <gx/cuda/device.hpp>         // Device
#include <gx/loader/synthetic.hpp>    // images without files
#include <gx/model/cifar_resnet.hpp>  // CifarResNet
#include <gx/model/compute.hpp>       // Compute
#include <gx/nccl/world.hpp>          // World
#include <gx/reducer/multi_ring.hpp>  // MultiRing
#include <gx/trainer/trainer.hpp>     // Trainer

#include <cstdio>  // printf

using namespace gx;

int main() {
    const Trainer<CifarResNet<8>, MultiRing<2, fp16>, Warmup<Poly<2>>, Compute<fp16>> trainer(
        {.batch = 4, .epochs = 3, .evaluate = false});
    nccl::World<cuda::Device> gpus({.placement = {1, 2}});
    const Split images =
        synthetic({.shape = {3, 8, 8}, .classes = 4, .train_count = 32, .test_count = 0});

    const RunRecord run = trainer.train(gpus, images);
    std::printf("%s\n%d GPUs  %zu steps  loss %.2f -> %.2f\n", run.composition.c_str(), run.ranks,
                run.steps.size(), run.steps.front().loss, run.steps.back().loss);
}
