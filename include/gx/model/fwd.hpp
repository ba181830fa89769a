// The models of the core, with their defaults and their names, declared once.
#pragma once

#include <gx/core/role.hpp>  // Header

namespace gx {

/// Where a bottleneck that halves the image has its stride. Basic blocks ignore it.
enum class StrideAt : bool {
    conv3x3,  ///< v1.5, what is trained today: half a percent better, 6 % more multiply-adds
    conv1x1   ///< v1, as He et al. published it
};

/// How the last batch norm of each residual branch starts.
enum class LastGamma : bool {
    zero,  ///< the network starts as its shortcuts alone: what large batches need
    one    ///< as He et al. published it
};

/// What is trained on top of the encoder.
enum class BertHead : unsigned char {
    none,        ///< the pooled first token: what published parameter counts are of
    pretraining  ///< masked words, decoded by the tied word table, and the next sentence
};

/// Whether Inception-v3 has the second classifier that the paper trains with.
enum class Auxiliary : bool { no, yes };

struct AlexNet;
struct LeNet;
template <int Depth, bool BatchNorm = false>
struct Vgg;
using Vgg11 = Vgg<11>;
using Vgg13 = Vgg<13>;
using Vgg16 = Vgg<16>;
using Vgg19 = Vgg<19>;
using Vgg11Bn = Vgg<11, true>;
using Vgg13Bn = Vgg<13, true>;
using Vgg16Bn = Vgg<16, true>;
using Vgg19Bn = Vgg<19, true>;
template <int... Hidden>
struct Mlp;

template <int Depth, StrideAt Stride = StrideAt::conv3x3, LastGamma Gamma = LastGamma::zero>
struct ResNet;
using ResNet18 = ResNet<18>;
using ResNet34 = ResNet<34>;
using ResNet50 = ResNet<50>;
using ResNet101 = ResNet<101>;
using ResNet152 = ResNet<152>;

template <int Depth, int Groups, int Width, LastGamma Gamma = LastGamma::zero>
struct ResNeXt;
using ResNeXt50 = ResNeXt<50, 32, 4>;
using ResNeXt101 = ResNeXt<101, 32, 8>;

template <int Depth, int Channels = 3, int Side = 32, int Classes = 10,
          LastGamma Gamma = LastGamma::zero>
struct CifarResNet;
using ResNet8 = CifarResNet<8>;
using ResNet20 = CifarResNet<20>;
using ResNet32 = CifarResNet<32>;
using ResNet44 = CifarResNet<44>;
using ResNet56 = CifarResNet<56>;
using ResNet110 = CifarResNet<110>;
/// The same on the 28x28 grey images of MNIST and Fashion-MNIST.
template <int Depth>
using FashionResNet = CifarResNet<Depth, 1, 28>;

template <Auxiliary Second = Auxiliary::no>
struct Inception;
using InceptionV3 = Inception<>;

template <int Layers, int Width, int Heads, BertHead Head = BertHead::none>
struct Bert;
using BertBase = Bert<12, 768, 12>;
using BertLarge = Bert<24, 1024, 16>;
using BertBasePretraining = Bert<12, 768, 12, BertHead::pretraining>;
using BertLargePretraining = Bert<24, 1024, 16, BertHead::pretraining>;

template <int Layers, int Width, int Heads>
struct Albert;
using AlbertBase = Albert<12, 768, 12>;

template <int Layers, int Width, int Heads, int Context = 1024, int Vocabulary = 50'257>
struct Gpt;
using Gpt2Small = Gpt<12, 768, 12>;
using Gpt2Medium = Gpt<24, 1024, 16>;
using Gpt2Large = Gpt<36, 1280, 20>;
using Gpt2Xl = Gpt<48, 1600, 25>;

namespace detail::role {  // what the error says where only this header is included
template <>
struct Header<AlexNet> {
    GX_DEFINED_IN("gx/model/alexnet.hpp")
};
template <>
struct Header<LeNet> {
    GX_DEFINED_IN("gx/model/lenet.hpp")
};
template <int D, bool B>
struct Header<Vgg<D, B>> {
    GX_DEFINED_IN("gx/model/vgg.hpp")
};
template <int... H>
struct Header<Mlp<H...>> {
    GX_DEFINED_IN("gx/model/mlp.hpp")
};
template <int D, StrideAt S, LastGamma G>
struct Header<ResNet<D, S, G>> {
    GX_DEFINED_IN("gx/model/resnet.hpp")
};
template <int D, int G, int W, LastGamma L>
struct Header<ResNeXt<D, G, W, L>> {
    GX_DEFINED_IN("gx/model/resnext.hpp")
};
template <int D, int C, int S, int K, LastGamma G>
struct Header<CifarResNet<D, C, S, K, G>> {
    GX_DEFINED_IN("gx/model/cifar_resnet.hpp")
};
template <Auxiliary A>
struct Header<Inception<A>> {
    GX_DEFINED_IN("gx/model/inception.hpp")
};
template <int L, int W, int H, BertHead B>
struct Header<Bert<L, W, H, B>> {
    GX_DEFINED_IN("gx/model/bert.hpp")
};
template <int L, int W, int H>
struct Header<Albert<L, W, H>> {
    GX_DEFINED_IN("gx/model/albert.hpp")
};
template <int L, int W, int H, int C, int V>
struct Header<Gpt<L, W, H, C, V>> {
    GX_DEFINED_IN("gx/model/gpt.hpp")
};
}  // namespace detail::role

}  // namespace gx
