// The peer of gx_bench_step: ResNet-20 in LibTorch, channels last. Reads a number of training steps
// from standard input, runs them, prints the seconds of each on one line; until the input ends.
//   gx_step_libtorch BATCH
#include <torch/torch.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>

namespace nn = torch::nn;

namespace {

nn::Conv2d conv(int in, int out, int size, int stride) {
    return nn::Conv2d(
        nn::Conv2dOptions(in, out, size).stride(stride).padding(size / 2).bias(false));
}
nn::ReLU relu() { return nn::ReLU(nn::ReLUOptions().inplace(true)); }

struct BlockImpl : nn::Module {
    nn::Sequential body, shortcut;
    BlockImpl(int in, int out, int stride)
        : body(conv(in, out, 3, stride), nn::BatchNorm2d(out), relu(), conv(out, out, 3, 1),
               nn::BatchNorm2d(out)) {
        register_module("body", body);
        if (stride == 1 && in == out) return;
        shortcut = nn::Sequential(conv(in, out, 1, stride), nn::BatchNorm2d(out));
        register_module("shortcut", shortcut);
    }
    torch::Tensor forward(torch::Tensor x) {
        const auto rest = shortcut->is_empty() ? x : shortcut->forward(x);
        return torch::relu_(body->forward(x).add_(rest));
    }
};
TORCH_MODULE(Block);

nn::Sequential resnet20() {
    nn::Sequential net(conv(3, 16, 3, 1), nn::BatchNorm2d(16), relu());
    for (int stage = 0, width = 16, in = 16; stage < 3; ++stage, width *= 2)
        for (int b = 0; b < 3; ++b, in = width)
            net->push_back(Block(in, width, b == 0 && stage > 0 ? 2 : 1));
    net->push_back(nn::AdaptiveAvgPool2d(1));
    net->push_back(nn::Flatten());
    net->push_back(nn::Linear(64, 10));
    return net;
}

}  // namespace

int main(int argc, char** argv) {
    const int batch = argc > 1 ? std::atoi(argv[1]) : 128;
    torch::manual_seed(1);
    auto net = resnet20();
    for (auto& p : net->parameters())
        if (p.dim() == 4) p.set_data(p.data().contiguous(at::MemoryFormat::ChannelsLast));
    const auto images = torch::randn({batch, 3, 32, 32}).contiguous(at::MemoryFormat::ChannelsLast);
    const auto labels = torch::randint(10, {batch}, torch::kLong);
    torch::optim::SGD sgd(net->parameters(),
                          torch::optim::SGDOptions(0.01).momentum(0.9).weight_decay(1e-4));
    for (int steps = 0; std::cin >> steps;) {
        for (int s = 0; s < steps; ++s) {
            const auto begin = std::chrono::steady_clock::now();
            sgd.zero_grad();
            const auto loss = nn::functional::cross_entropy(net->forward(images), labels);
            loss.backward();
            sgd.step();
            const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
            std::printf("%.9f ", taken.count());
        }
        std::printf("\n");
        std::fflush(stdout);
    }
}
