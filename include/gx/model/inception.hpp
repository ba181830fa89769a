// InceptionV3: branches of factorised convolutions, joined by channels.
#pragma once

#include <string_view>  // name

#include <gx/model/layers.hpp>    // below
#include <gx/model/sequence.hpp>  // concat

namespace gx {

namespace detail::inception {

/// Convolution, batch norm, ReLU; "conv" and "bn" below `scope`.
constexpr int unit(GraphBuilder& b, int x, int channels, Window w, const Label& scope) {
    x = b.conv2d(x, {channels, w}, below(scope, "conv"));
    x = b.batch_norm(x, {.epsilon = 1e-3}, below(scope, "bn"));
    return b.relu(x, below(scope, "relu"));
}
constexpr int point(GraphBuilder& b, int x, int channels, const Label& scope) {
    return unit(b, x, channels, Window::square(1), scope);
}
constexpr Window wide(int n) { return {1, n, 1, 0, n / 2}; }
constexpr Window tall(int n) { return {n, 1, 1, n / 2, 0}; }

/// One module: appends its branches behind x and joins them.
struct Module {
    GraphBuilder& b;
    int x;
    Label scope;

    constexpr Label at(std::string_view name) const { return below(scope, name); }
    constexpr int join(int first, int second) const { return concat(b, first, second, scope); }
    constexpr int pooled(int channels) const {
        Window w = Window::square(3, 1, 1);
        w.counts_padding = true;  // as torchvision's branch_pool does
        const int mean = b.avg_pool(x, w, at("pool"));
        return point(b, mean, channels, at("branch_pool"));
    }
    constexpr int doubled(int stride) const {  // 1x1, 3x3, 3x3
        int y = point(b, x, 64, at("branch3x3dbl_1"));
        y = unit(b, y, 96, Window::square(3, 1, 1), at("branch3x3dbl_2"));
        return unit(b, y, 96, Window::square(3, stride, stride == 1 ? 1 : 0), at("branch3x3dbl_3"));
    }
    constexpr int a(int pool_channels) const {
        const int one = point(b, x, 64, at("branch1x1"));
        const int five = unit(b, point(b, x, 48, at("branch5x5_1")), 64, Window::square(5, 1, 2),
                              at("branch5x5_2"));
        const int three = doubled(1);
        return join(join(join(one, five), three), pooled(pool_channels));
    }
    constexpr int b3() const {  // halves the image
        const int three = unit(b, x, 384, Window::square(3, 2), at("branch3x3"));
        const int twice = doubled(2);
        return join(join(three, twice), b.max_pool(x, Window::square(3, 2), at("pool")));
    }
    constexpr int c(int seven) const {
        const int one = point(b, x, 192, at("branch1x1"));
        int y = point(b, x, seven, at("branch7x7_1"));
        y = unit(b, y, seven, wide(7), at("branch7x7_2"));
        y = unit(b, y, 192, tall(7), at("branch7x7_3"));
        int z = point(b, x, seven, at("branch7x7dbl_1"));
        z = unit(b, z, seven, tall(7), at("branch7x7dbl_2"));
        z = unit(b, z, seven, wide(7), at("branch7x7dbl_3"));
        z = unit(b, z, seven, tall(7), at("branch7x7dbl_4"));
        z = unit(b, z, 192, wide(7), at("branch7x7dbl_5"));
        return join(join(join(one, y), z), pooled(192));
    }
    constexpr int d() const {  // halves the image
        const int three = unit(b, point(b, x, 192, at("branch3x3_1")), 320, Window::square(3, 2),
                               at("branch3x3_2"));
        int y = point(b, x, 192, at("branch7x7x3_1"));
        y = unit(b, y, 192, wide(7), at("branch7x7x3_2"));
        y = unit(b, y, 192, tall(7), at("branch7x7x3_3"));
        y = unit(b, y, 192, Window::square(3, 2), at("branch7x7x3_4"));
        return join(join(three, y), b.max_pool(x, Window::square(3, 2), at("pool")));
    }
    constexpr int split(int y, std::string_view first, std::string_view second) const {
        const int left = unit(b, y, 384, wide(3), at(first));
        return join(left, unit(b, y, 384, tall(3), at(second)));
    }
    constexpr int e() const {
        const int one = point(b, x, 320, at("branch1x1"));
        int y = point(b, x, 384, at("branch3x3_1"));
        const int three = split(y, "branch3x3_2a", "branch3x3_2b");
        y = point(b, x, 448, at("branch3x3dbl_1"));
        y = unit(b, y, 384, Window::square(3, 1, 1), at("branch3x3dbl_2"));
        y = split(y, "branch3x3dbl_3a", "branch3x3dbl_3b");
        return join(join(join(one, three), y), pooled(192));
    }
};

/// The second classifier, in the middle; its loss is not part of the graph.
constexpr void append_auxiliary(GraphBuilder& b, int x) {
    x = b.avg_pool(x, Window::square(5, 3), "AuxLogits.pool");
    x = point(b, x, 128, "AuxLogits.conv0");
    x = unit(b, x, 768, Window::square(5), "AuxLogits.conv1");
    x = b.flatten(b.global_avg_pool(x, "AuxLogits.mean"), "AuxLogits.flatten");
    (void)b.linear(x, b.classes(), true, "AuxLogits.fc");
}

}  // namespace detail::inception

/// Inception-v3 as torchvision has it. Parameters: 23,834,568, and 27,161,264 with the auxiliary
/// classifier, with which it is for timing alone. torchvision's published weights expect images
/// normalised by a mean and a deviation of 0.5 (transform_input).
/// Source: Szegedy et al. 2015, arXiv:1512.00567; torchvision/models/inception.py.
template <Auxiliary Second>
struct Inception {
    static constexpr std::string_view name =
        Second == Auxiliary::yes ? "Inception-v3-aux" : "Inception-v3";
    static constexpr ImageShape input{3, 299, 299};
    static constexpr int classes = 1000;

    static constexpr int describe(GraphBuilder& b, int x) {
        using namespace detail::inception;
        x = unit(b, x, 32, Window::square(3, 2), "Conv2d_1a_3x3");
        x = unit(b, x, 32, Window::square(3), "Conv2d_2a_3x3");
        x = unit(b, x, 64, Window::square(3, 1, 1), "Conv2d_2b_3x3");
        x = b.max_pool(x, Window::square(3, 2), "maxpool1");
        x = point(b, x, 80, "Conv2d_3b_1x1");
        x = unit(b, x, 192, Window::square(3), "Conv2d_4a_3x3");
        x = b.max_pool(x, Window::square(3, 2), "maxpool2");
        x = Module{b, x, "Mixed_5b"}.a(32);
        x = Module{b, x, "Mixed_5c"}.a(64);
        x = Module{b, x, "Mixed_5d"}.a(64);
        x = Module{b, x, "Mixed_6a"}.b3();
        x = Module{b, x, "Mixed_6b"}.c(128);
        x = Module{b, x, "Mixed_6c"}.c(160);
        x = Module{b, x, "Mixed_6d"}.c(160);
        x = Module{b, x, "Mixed_6e"}.c(192);
        if (Second == Auxiliary::yes) append_auxiliary(b, x);
        x = Module{b, x, "Mixed_7a"}.d();
        x = Module{b, x, "Mixed_7b"}.e();
        x = Module{b, x, "Mixed_7c"}.e();
        x = b.dropout(b.global_avg_pool(x, "avgpool"), 0.5, "dropout");
        return b.linear(b.flatten(x, "flatten"), b.classes(), true, "fc");
    }
};

}  // namespace gx
