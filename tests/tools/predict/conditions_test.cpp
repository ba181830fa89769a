#include <tools/predict/conditions.hpp>  // first, so the header is seen to stand alone

#include <cmath>   // isfinite
#include <string>  // text
#include <vector>  // cases

#include <gmock/gmock.h>       // HasSubstr
#include <rapidcheck/gtest.h>  // properties

#include <tools/predict/mechanism.hpp>  // find_mechanism
#include <tools/predict/predict.hpp>    // Predictor
#include <tools/predict/stack.hpp>      // find_stack
#include <tools/published.hpp>          // published_text

namespace {

using namespace gx::tools::predict;
using gx::tools::Json;

/// The published cases that ask for something, as JSON.
const Json& asked() {
    static const Json cases = [] {
        Json some = Json::array();
        for (Json& c : gx::tools::parse_json(gx::tools::published_text(), "cases.json"))
            for (const Json& p : c["measured"])
                if (p.value("role", "") == "target") {
                    some.push_back(c);
                    break;
                }
        return some;
    }();
    return cases;
}
Prediction predicted(const Json& c) {
    static Predictor predict;
    return predict(read_cases(Json::array({c}).dump(), "one.json").at(0));
}
/// A value for each target, above 0 and no better than 110 % of the base's; or what is wrong.
std::string wrong_with(const Json& c) {
    std::size_t targets = 0;
    for (const Json& p : c["measured"]) targets += p.value("role", "") == "target" ? 1 : 0;
    const Prediction p = predicted(c);
    if (!p.error.empty()) return p.error;
    if (p.points.size() != targets) return "a target has no value";
    for (const PredictedPoint& q : p.points) {
        if (!std::isfinite(q.value) || !(q.value > 0)) return "a value that is no number above 0";
        if (!(q.efficiency_pct > 0 && q.efficiency_pct < 110))
            return "efficiency of " + std::to_string(q.efficiency_pct);
        if (!(std::isfinite(q.step_ms) && q.step_ms > 0 && std::isfinite(q.exposed_ms)))
            return "a step that is no time";
    }
    return "";
}

// ---- Every published case, and what is left of it -----------------------------------
TEST(Conditions, EveryFieldMayBeMissing) {
    for (const Json& c : asked())
        for (const auto& [field, value] : c["conditions"].items()) {
            Json less = c;
            less["conditions"].erase(field);
            EXPECT_EQ(wrong_with(less), "") << c["id"] << " without " << field;
        }
}

/// Words that the field uses for the same things, in cases drawn at random.
RC_GTEST_PROP(Conditions, AnySpellingIsPredicted, ()) {
    const std::vector<std::pair<const char*, std::vector<Json>>> spellings{
        {"gpu",
         {"NVIDIA Tesla V100",
          "V100-SXM2-32GB",
          "Tesla V100-PCIE-32GB",
          "p3.16xlarge",
          "Volta",
          "P3dn.24XL V100",
          "p4d.24xlarge",
          "a2-highgpu-8g",
          "A100 40GB",
          "H100 80GB HBM3",
          "p5.48xlarge",
          "Tesla P100-PCIE-16GB",
          "Piz Daint (P100)",
          "GTX 1080 Ti",
          "Titan Xp",
          "TITAN X Pascal",
          "TITAN V",
          "GTX Titan X",
          "T4",
          "RTX 2080 Ti",
          "M40",
          "Tesla M60",
          "Tesla K40m",
          "K20X",
          "GK210",
          "A10G",
          "A40",
          "RTX 3090",
          "H800",
          "B200",
          "Standard_ND40rs_v2",
          "RTX 4090",
          "MI250X",
          "MI300X",
          "GH200 480GB",
          "DGX-1",
          "not stated"}},
        {"model",
         {"ResNet-50 v1.5",
          "resnet50",
          "resnet50_v1.5",
          "VGG16",
          "VGG-19",
          "AlexNet",
          "GoogLeNet",
          "Inception-v1",
          "Inception V3",
          "Inception-v4",
          "DenseNet-121",
          "MobileNet v2",
          "Transformer (big)",
          "GNMT",
          "LSTM",
          "DLRM",
          "Mask R-CNN",
          "SSD300",
          "ViT-L/16",
          "GPT-2 345M",
          "T5-large",
          "RoBERTa",
          "a new network",
          "MLPerf ResNet-50",
          "EfficientNet",
          "YOLOv5m",
          "LLaMA",
          "3D U-Net",
          "Wide ResNet-50-2"}},
        {"transport",
         {"25 GbE", "100 Gb/s", "EFA", "HDR", "NDR InfiniBand", "RoCE v2", "TCP/IP", "Cray Aries",
          "OmniPath", "IB", "socket", "not stated", "EDR", "RoCE 200G", "Slingshot"}},
        {"nic_gbps_per_node",
         {"25 GbE", "100 Gb/s", "4 x 100 Gb/s", "2x EDR", "HDR", "not stated", nullptr, 12.5, "100",
          "8 x 200", "1.6 Tb/s", "12.5 GB/s"}},
        {"framework",
         {"PyTorch", "torch.distributed", "PyTorch + Horovod", "Horovod", "TF2", "Keras + Horovod",
          "MXNet", "Caffe2", "CNTK", "BytePS", "DeepSpeed", "JAX", "PaddlePaddle", "ChainerMN"}},
        {"precision", {"fp16", "half", "float16", "bfloat16", "AMP", "TF32", "single", "FP8"}},
        {"gpus_per_node", {"8", "8 per node", 16, 1, "4 (2 per socket)", nullptr}},
        {"batch_per_gpu", {"64 per GPU", "256 (global 4096)", "not stated", nullptr}},
        {"collective", {"NCCL", "MPI", "Gloo", "ring all-reduce", "SHARP", "dist_sync"}},
        {"intra_node_link", {"NVLink 2.0", "NVSwitch", "PCIe Gen4 x16", "none", "not stated"}}};
    Json c = asked()[*rc::gen::inRange<std::size_t>(0, asked().size())];
    const int changes = *rc::gen::inRange(1, 4);
    for (int i = 0; i < changes; ++i) {
        const auto& [field, words] = spellings[*rc::gen::inRange<std::size_t>(0, spellings.size())];
        c["conditions"][field] = words[*rc::gen::inRange<std::size_t>(0, words.size())];
    }
    RC_LOG() << c["id"] << " " << c["conditions"].dump();
    RC_ASSERT(wrong_with(c) == "");
}

// ---- Parameters -----------------------------------------------------------------------
TEST(Conditions, ParametersAreInMillions) {
    const auto mb = [](const Json& millions) {
        return read_conditions(Json{{"gpu", "V100"}, {"params_millions", millions}})
            .gradient_mb_fp32;
    };
    for (const Json& same : std::vector<Json>{345, "345", "345M", "345 M", "345 million",
                                              "345 million parameters", "~345 M"})
        EXPECT_EQ(mb(same), 4 * 345) << same;
    EXPECT_EQ(mb("1,300 M"), 4 * 1300);
    for (const Json& half :
         std::vector<Json>{0.5, "0.5", ".5", "0.5 million", "0.5M", "~.5 M", "~0.50"})
        EXPECT_EQ(mb(half), 2) << half;
    EXPECT_NEAR(mb("0.05 M"), 0.2, 1e-12);
    EXPECT_EQ(mb("not stated"), 0);
    EXPECT_EQ(mb("not stated in the paper of 2019"), 0);
    for (const std::string other :
         {"1.3B", "1.3 billion", "345K", "345 thousand", "1.3e3", "345 parameters",
          "25,600,000 parameters in fp32", "about 1.3B", "about 345 M", "0.3B"})
        try {
            (void)mb(other);
            FAIL() << other << " was taken";
        } catch (const gx::Error& e) {
            EXPECT_THAT(e.what(), ::testing::StartsWith("field 'conditions.params_millions': '" +
                                                        other + "' is not a number of millions"));
        }
}

TEST(Conditions, AGradientIsInMegabytes) {
    const auto mb = [](const Json& written) {
        return read_conditions(Json{{"gpu", "V100"}, {"gradient_mb_fp32", written}})
            .gradient_mb_fp32;
    };
    for (const Json& same : std::vector<Json>{1300, "1300", "1300 MB", "1300MB", "1,300 M",
                                              "~1300 MB (fp32)", "1300 megabytes"})
        EXPECT_EQ(mb(same), 1300) << same;
    EXPECT_EQ(mb(".5"), 0.5);
    EXPECT_EQ(mb("not stated"), 0);
    for (const std::string other :
         {"1.3 GB", "1.3GB", "1.3G", "900 kB", "1300 Mbit", "1.3e3", "1300 MiB", "about 1.3 GB"})
        try {
            (void)mb(other);
            FAIL() << other << " was taken";
        } catch (const gx::Error& e) {
            EXPECT_STREQ(e.what(), ("field 'conditions.gradient_mb_fp32': '" + other +
                                    "' is not a number of MB: write 1300 or \"1300 MB\" for 1.3 GB")
                                       .c_str());
        }
}

// ---- Names ----------------------------------------------------------------------------
TEST(Conditions, AMisspeltOneIsRefused) {
    for (const auto& [typed, meant] :
         std::vector<std::pair<std::string, std::string>>{{"nic_gbps", "nic_gbps_per_node"},
                                                          {"gpu_per_node", "gpus_per_node"},
                                                          {"Model", "model"},
                                                          {"bucket-mb", "bucket_mb"}}) {
        Json c = asked().front();
        c["conditions"].erase(meant);
        c["conditions"][typed] = 10;
        EXPECT_THAT(predicted(c).error,
                    ::testing::HasSubstr("field 'conditions." + typed +
                                         "' is not known: did you mean '" + meant + "'?"));
    }
}
TEST(Conditions, AnUnknownOneIsNamedInTheReasons) {
    const Prediction before = predicted(asked().front());
    for (const std::string name : {"weather", "mode"}) {  // beside 'model'
        Json c = asked().front();
        c["conditions"][name] = "fine";
        const Prediction p = predicted(c);
        EXPECT_EQ(p.error, "");
        ASSERT_FALSE(p.points.empty());
        EXPECT_EQ(p.points[0].value, before.points[0].value);
        EXPECT_THAT(p.why, ::testing::HasSubstr("condition '" + name + "' is not read"));
        EXPECT_THAT(p.assumed, ::testing::Contains("condition '" + name + "' is not read"));
    }
}
/// What is not modelled is answered by something near, and said.
TEST(Conditions, APrecisionThatIsNotModelledIsNamed) {
    const auto assumed = [](const char* precision) {
        Json c = asked().front();
        c["conditions"]["precision"] = precision;
        return predicted(c).assumed;
    };
    EXPECT_THAT(assumed("FP8"),
                ::testing::Contains("precision 'fp8' not modelled: mixed fp16 assumed"));
    EXPECT_THAT(assumed("int4"), ::testing::Contains("precision 'int4' not known: fp32 assumed"));
    for (const char* none : {"", "not stated"})
        EXPECT_THAT(assumed(none), ::testing::Contains("precision not stated: fp32 assumed"));
    for (const char* known : {"fp32", "TF32", "AMP", "mixed fp16", "bfloat16"})
        EXPECT_THAT(assumed(known),
                    ::testing::Not(::testing::Contains(::testing::HasSubstr("precision"))));
}
/// What "assumed" says of the parameters of a model, where the case states none unless given.
std::string assumed_parameters(const std::string& model, const Json& millions = nullptr) {
    Json c = asked().front();
    c["conditions"].erase("gradient_mb_fp32");
    c["conditions"].erase("params_millions");
    c["conditions"]["model"] = model;
    if (!millions.is_null()) c["conditions"]["params_millions"] = millions;
    const Prediction p = predicted(c);
    EXPECT_EQ(p.error, "");
    std::string all;
    for (const std::string& a : p.assumed)
        if (a.find("parameters") != a.npos || a.find("million") != a.npos) all += a;
    return all;
}
/// A family's name, an unknown member of it, a size beside a whole name, or two networks.
TEST(Conditions, AModelWhoseSizeIsGuessedIsNamed) {
    const auto taken = [](const std::string& model, const std::string& text) {
        EXPECT_EQ(assumed_parameters(model), "model '" + model + "' " + text + " assumed");
    };
    const std::string resnet =
        "taken for 'resnet' (did you mean 'ResNet-50'?): 25.56 million parameters";
    taken("ResNet-51", resnet);
    taken("ResNet-5O", resnet);
    taken("VGG-17", "taken for 'vgg': 138.4 million parameters");  // near to several
    taken("BERT-hug", "taken for 'bert': 336 million parameters");
    taken("DenseNet-12l", "taken for 'densenet': 7.98 million parameters");
    taken("YOLOv9", "taken for 'yolo': 61.9 million parameters");
    taken("MobileNetV4", "taken for 'mobilenet': 4.23 million parameters");
    taken("ViT-giant", "taken for 'vit': 86.57 million parameters");
    taken("T5-v1.1 XL", "taken for 't5': 220 million parameters");
    taken("GPT-3 small", "taken for 'gpt3': 1.75e+05 million parameters");
    taken("Mini GPT-3", "taken for 'gpt3': 1.75e+05 million parameters");
    taken("BERT, size not stated", "taken for 'bert': 336 million parameters");
    taken("SSD-ResNet34", "taken for 'ssd': 26.3 million parameters");  // two networks
    taken("HRNet-W18", "taken for 'hrnet': 65.9 million parameters");
    taken("mnasnet1_0", "taken for 'nasnet': 88.75 million parameters");  // inside another word
    taken("xdistilbert-l12", "taken for 'distilbert': 66 million parameters");
    taken("Distil-RoBERTa", "taken for 'roberta': 125 million parameters");
    taken("wav2vec2-large", "taken for 'wav2vec2': 95 million parameters");
    taken("wav2vec 2.0 large", "taken for 'wav2vec20': 95 million parameters");
    taken("ViT-bigG/14", "taken for 'vit': 86.57 million parameters");  // no ViT-B
    taken("Swin Transformer", "taken for 'swin': 28.29 million parameters");
    taken("NASNet-Mobile", "taken for 'nasnet': 88.75 million parameters");
    taken("NASNet-A mobile", "taken for 'nasnet': 88.75 million parameters");
    taken("Conformer, streaming", "taken for 'conformer': 118.8 million parameters");
    taken("YOLOX", "taken for 'yolo': 61.9 million parameters");
    taken("ResNet-50 (4x)", "taken for 'ResNet-50': 25.56 million parameters");  // as wide
    taken("SimCLR ResNet-152 2x", "taken for 'ResNet-152': 60.19 million parameters");
    taken("ResNet-50x4", "taken for 'ResNet-50': 25.56 million parameters");  // BiT's
    taken("MobileNetV2 1.4x", "taken for 'mobilenetv2': 3.5 million parameters");
    taken("SE-ResNeXt-101 64x4d", "taken for 'seresnext101': 48.96 million parameters");
    taken("VGG16-SSD", "taken for 'VGG-16': 138.4 million parameters");
    taken("ResNet-34 SSD", "taken for 'ResNet-34': 21.8 million parameters");
    taken("AlexNet-Transformer", "taken for 'AlexNet': 61.1 million parameters");
    taken("mean of ResNet-50 and VGG-16", "taken for 'ResNet-50': 25.56 million parameters");
    taken("resnet", "states no size: 25.56 million parameters");
    taken("BERT", "states no size: 336 million parameters");
    taken("Transformer-XL", "states no size: 257 million parameters");
    EXPECT_EQ(assumed_parameters("ResNet-51", 26), "") << "stated";
    EXPECT_EQ(assumed_parameters("GPT 1,3B"),
              "'1,3b' in the model's name is not read as a number of "
              "parameters: 117 million assumed");
}
TEST(Conditions, AnUnknownModelIsNamed) {
    const auto unknown = [](const std::string& model, const std::string& near) {
        EXPECT_EQ(assumed_parameters(model), "neither params_millions nor a known model" + near +
                                                 ": 30 million parameters assumed");
    };
    unknown("Resent-50", " (did you mean 'ResNet-50'?)");
    unknown("Densnet-121", "");  // near to a name that has no other spelling than the table's
    unknown("a new network", "");
}
/// A version, a variant of the same size, a data set, a patch or a tokeniser is no other network.
TEST(Conditions, APublishedSpellingIsNotNamed) {
    for (const char* known : {"ResNet-50 v1.5",
                              "ResNet50v1.5",
                              "resnet50_v1",
                              "resnet_v1_50",
                              "resnet_v2_50",
                              "ResNet-50 (v1.5)",
                              "torchvision.models.resnet50",
                              "ResNet-50 ImageNet",
                              "MLPerf ResNet-50",
                              "ResNet-18 (CIFAR-10)",
                              "wide_resnet50_2",
                              "WRN-28-10",
                              "ResNeXt-50 32x4d",
                              "resnext50_32x4d",
                              "resnext101_32x8d",
                              "ResNeXt-101 32x4d",
                              "ResNeXt-101 (64x4d)",
                              "ResNeXt-101 32x16d",
                              "SE-ResNeXt-101 32x4d",
                              "NASNet-A Large",
                              "MobileNetV2 1.0x",
                              "Mask R-CNN R50-FPN 3x",
                              "ResNet-50 1x",
                              "ResNet-50, 4x V100",
                              "SE-ResNet-50",
                              "inception_v3",
                              "Inception v4",
                              "Inception-ResNet-v2",
                              "VGG-16",
                              "vgg16_bn",
                              "VGG-D",
                              "AlexNet (MXNet)",
                              "DenseNet-201",
                              "MobileNet",
                              "MobileNet v2",
                              "MobileNetV3-Large",
                              "MobileNetV3-Small",
                              "SqueezeNet 1.1",
                              "efficientnet_b4",
                              "ViT-B/16",
                              "vit_b_16",
                              "ViT-Large",
                              "ViT-B16",
                              "ViT-Base",
                              "swin_base_patch4",
                              "CLIP ViT-L/14",
                              "DeiT-B",
                              "swin_t",
                              "convnext_tiny",
                              "ConvNeXt-Large",
                              "BERT-large",
                              "BERT-Large (phase 1)",
                              "google-bert/bert-large-uncased",
                              "bert-base-uncased",
                              "RoBERTa-base",
                              "roberta-large",
                              "distilroberta-base",
                              "Distil-RoBERTa-base",
                              "xlm-roberta-base",
                              "albert-base-v2",
                              "ALBERT-xlarge",
                              "distilbert-base-uncased",
                              "XLNet-large",
                              "Transformer big (WMT En-De)",
                              "Transformer-XL large",
                              "GPT-2 345M",
                              "gpt2-medium",
                              "GPT-3",
                              "t5-small",
                              "Mask R-CNN",
                              "Mask R-CNN ResNet-50-FPN",
                              "Faster R-CNN",
                              "fasterrcnn_resnet50_fpn",
                              "RetinaNet ResNet-50",
                              "SSD300",
                              "YOLOv3",
                              "YOLOv5s",
                              "YOLOX-S",
                              "yolox_tiny",
                              "Conformer-S",
                              "Conformer (L)",
                              "DLRM",
                              "DLRM-DCNv2",
                              "DeepLabV3",
                              "LeNet-5",
                              "NASNet-A",
                              "wav2vec 2.0",
                              "openai/whisper-large-v3"})
        EXPECT_EQ(assumed_parameters(known), "") << known;
    const auto why = [](const char* model) {
        return predicted({{"id", model},
                          {"conditions", {{"model", model}}},
                          {"measured",
                           {{{"gpus", 1}, {"role", "base"}, {"value", 1}, {"unit", "img/s"}},
                            {{"gpus", 8}, {"role", "target"}}}}})
            .why;
    };
    EXPECT_THAT(why("resnet_v1_101"), ::testing::HasSubstr("178.2 MB"));
    EXPECT_THAT(why("MobileNetV3-Small"), ::testing::HasSubstr("10.2 MB"));
    EXPECT_THAT(why("Whisper-large"), ::testing::HasSubstr("6200.0 MB"));
    EXPECT_THAT(why("ResNeXt-101 32x16d"), ::testing::HasSubstr("776.1 MB"));
    EXPECT_THAT(why("ResNeXt-101 32x8d"), ::testing::HasSubstr("355.2 MB"));
    EXPECT_THAT(why("YOLOX-S"), ::testing::HasSubstr("36.0 MB"));
    EXPECT_THAT(why("Conformer-S"), ::testing::HasSubstr("41.2 MB"));
    EXPECT_THAT(why("Distil-RoBERTa-base"), ::testing::HasSubstr("328.4 MB"));
    EXPECT_THAT(why("DLRM-DCNv2"), ::testing::HasSubstr("64.2 MB"));
}
// ---- What is denied -------------------------------------------------------------------
/// One GPU to 16 on two machines, so that all that is read makes a difference.
Prediction with(const char* field, const Json& value, const Json& others = Json::object()) {
    Json c = {{"id", "mine"},
              {"conditions",
               {{"gpu", "V100-SXM2-16GB"},
                {"gpus_per_node", 8},
                {"nic_gbps_per_node", 56},
                {"transport", "TCP"},
                {"intra_node_link", "NVLink"},
                {"model", "VGG-16"},
                {"batch_per_gpu", 32},
                {"precision", "fp32"},
                {"framework", "PyTorch 1.4 DDP"},
                {"collective", "NCCL"}}},
              {"measured",
               {{{"gpus", 1}, {"role", "base"}, {"value", 200}, {"unit", "img/s"}},
                {{"gpus", 8}, {"role", "target"}},
                {{"gpus", 16}, {"role", "target"}}}}};
    c["conditions"].update(others);
    c["conditions"][field] = value;
    return predicted(c);
}
std::vector<double> values(const Prediction& p) {
    std::vector<double> all;
    for (const PredictedPoint& q : p.points) all.push_back(q.value);
    EXPECT_EQ(p.error, "");
    return all;
}
TEST(Conditions, SayingWhatIsNotThereChangesNothing) {
    const auto same = [](const char* field, const char* with_denial, const char* without,
                         const Json& others = Json::object()) {
        EXPECT_EQ(values(with(field, with_denial, others)), values(with(field, without, others)))
            << field << ": " << with_denial;
    };
    for (const char* link : {"no NVLink", "PCIe (no NVLink)", "NVLink disabled", "PIX",
                             "P2P disabled, SHM", "shared memory", "PCIe 3.0, driver 455.0"})
        same("intra_node_link", link, "PCIe 3");
    same("intra_node_link", "NVLink, not PCIe", "NVLink");
    same("intra_node_link", "PCIe switch, gen4", "PCIe 4.0 x16");
    same("transport", "Ethernet, no RDMA", "Ethernet");
    same("transport", "RDMA, not TCP", "RDMA");
    same("transport", "InfiniBand, not FDR", "InfiniBand EDR");
    same("transport", "RoCE (no gRPC)", "RoCE");
    same("framework", "PyTorch DDP, not FSDP", "PyTorch DDP");
    same("framework", "PyTorch DDP, no Horovod", "PyTorch DDP");
    for (const char* clipping : {"PyTorch DDP, no gradient clipping",
                                 "PyTorch DDP without clipping", "PyTorch DDP, clipping disabled"})
        same("framework", clipping, "PyTorch DDP");
    same("option", "no double buffering", "plain", {{"framework", "ChainerMN"}});
    same("collective", "NCCL (no kvstore)", "NCCL", {{"framework", "MXNet"}});
    same("collective", "NCCL instead of parameter servers", "NCCL");
    same("data", "synthetic (not ImageNet on disk)", "synthetic", {{"framework", "TensorFlow"}});
    same("collective", "NCCL 2.20", "NCCL");
    EXPECT_NE(values(with("transport", "RoCE")), values(with("transport", "InfiniBand")));
    EXPECT_THAT(with("intra_node_link", "a wire").assumed,
                ::testing::Contains("intra_node_link 'a wire' not known: NVLink assumed"));
}
TEST(Conditions, TokensOfASequenceAreReadWhereverTheyStand) {
    const auto of = [](const char* field, const Json& value) {
        return read_conditions(Json{{"gpu", "V100"}, {field, value}}).sequence;
    };
    EXPECT_EQ(of("sequence_length", 2048), 2048);
    EXPECT_EQ(of("model", "MPT-125M, sequence 2048"), 2048);
    EXPECT_EQ(of("model", "GPT-2 XL, sequences of 1,024"), 1024);
    EXPECT_EQ(of("model", "BERT-large (seq len 512)"), 512);
    EXPECT_EQ(of("model", "Llama 8B, context length: 8k"), 8192);
    EXPECT_EQ(of("data", "128-token sequences"), 128);
    EXPECT_EQ(of("sequence_length", "8k"), of("model", "sequence 8k"));
    EXPECT_EQ(of("model", "GPT-2, sequence lengths 2048"), 2048);
    for (const char* none :
         {"seq2seq", "GPT-2", "sequence classification", "BERT, 24 layers", "context of 5 papers",
          "in sequence 3", "16-token vocabulary padding", "trained in the context of 8 nodes",
          "Seq2Seq 8 layers", "300,000-token corpus"})
        EXPECT_EQ(of("model", none), 0) << none;
    EXPECT_THAT(with("sequence_length", 0.5).error,
                testing::HasSubstr("field 'conditions.sequence_length': '0.5' is out of range"));
}
TEST(Conditions, GeForceSince2018CopiesThroughTheHost) {
    const auto no_peers = [](const char* gpu) {
        return read_conditions(Json{{"gpu", gpu}}).no_peers;
    };
    for (const char* geforce : {"RTX 3090", "GeForce RTX 2080 Ti", "NVIDIA RTX-4090", "RTX4080",
                                "GeForce 3090", "2080ti", "NVIDIA 4090"})
        EXPECT_TRUE(no_peers(geforce)) << geforce;
    for (const char* other : {"GTX 1080 Ti", "RTX 6000 Ada", "RTX A6000", "Quadro RTX 8000",
                              "Titan RTX", "V100", "A40", "RTX 6000", "M2090"})
        EXPECT_FALSE(no_peers(other)) << other;
}
TEST(Conditions, PrecisionsAreReadByWords) {
    const auto same = [](const char* a, const char* b) {
        EXPECT_EQ(values(with("precision", a)), values(with("precision", b))) << a;
        const Conditions x = read_conditions(Json{{"gpu", "V100"}, {"precision", a}});
        const Conditions y = read_conditions(Json{{"gpu", "V100"}, {"precision", b}});
        EXPECT_TRUE(x.precision == y.precision && x.wire_bytes == y.wire_bytes) << a;
    };
    for (const char* mixed : {"fp16 mixed", "AMP (fp16/fp32)", "AMP", "mixed precision"})
        same(mixed, "mixed fp16");
    for (const char* full : {"not fp16", "no AMP", "AMP off", "full precision", "fp32, no TF32"})
        same(full, "fp32");
    EXPECT_THAT(with("precision", "example").assumed,
                ::testing::Contains("precision 'example' not known: fp32 assumed"));
    EXPECT_THAT(with("precision", "fp32, fp16 gradients").assumed,
                ::testing::Contains(::testing::HasSubstr("names two: fp32 assumed")));
    const auto wire = [](const char* text) {
        return read_conditions(Json{{"gpu", "V100"}, {"gradient_dtype_on_wire", text}}).wire_bytes;
    };
    const auto amp = [](const char* framework) {
        return read_conditions(
                   Json{{"gpu", "V100"}, {"precision", "AMP"}, {"framework", framework}})
            .wire_bytes;
    };
    EXPECT_EQ(amp("PyTorch DDP"), 4);
    EXPECT_EQ(amp("PaddlePaddle Fleet"), 2);
    EXPECT_EQ(amp("PaddlePaddle 2.3, dygraph DataParallel"), 4);
    EXPECT_EQ(wire("fp32, not fp16"), 4);
    EXPECT_EQ(wire("fp32 (16 MB buckets)"), 4);
    EXPECT_EQ(wire("16-bit"), 2);
    for (const char* other : {"1-bit", "2 bytes", "fp16/fp32"})
        EXPECT_THAT(with("gradient_dtype_on_wire", other).error,
                    ::testing::StartsWith("field 'conditions.gradient_dtype_on_wire': '" +
                                          std::string(other) + "' names "));
}
/// Else the readers of many cases would look past those that have a word to say.
TEST(Conditions, NothingOfPublishedCasesIsUnread) {
    for (const Json& c : asked())
        EXPECT_THAT(predicted(c).assumed,
                    ::testing::Not(::testing::Contains(::testing::AnyOf(
                        ::testing::HasSubstr("not read"), ::testing::HasSubstr("precision")))));
}
TEST(Conditions, ThoseOfPublishedCasesAreKnown) {
    for (const Json& c : gx::tools::parse_json(gx::tools::published_text(), "cases.json"))
        EXPECT_THAT(predicted(c).error, ::testing::Not(::testing::HasSubstr("is not known")));
}

// ---- Physics, on every published case -----------------------------------------------
RC_GTEST_PROP(Conditions, MoreBandwidthNeverHurts, ()) {
    Json c = asked()[*rc::gen::inRange<std::size_t>(0, asked().size())];
    const double gbps = *rc::gen::inRange(1, 800), more = *rc::gen::inRange(101, 400) / 100.0;
    RC_LOG() << c["id"] << " at " << gbps << " and " << gbps * more << " Gb/s";
    c["conditions"]["nic_gbps_per_node"] = gbps;
    const Prediction slow = predicted(c);
    c["conditions"]["nic_gbps_per_node"] = gbps * more;
    const Prediction fast = predicted(c);
    RC_ASSERT(slow.error.empty() && slow.points.size() == fast.points.size());
    // A faster wire is done earlier with what was ready, so that Horovod's next cycle finds less:
    // more messages, and at the end at most one cycle of 5 ms more.
    const double cycle_ms = slow.stack == "tensorflow-horovod" ? 5 : 0;
    for (std::size_t i = 0; i < slow.points.size(); ++i)
        RC_ASSERT(fast.points[i].step_ms <= slow.points[i].step_ms + cycle_ms + 1e-9);
}

// ---- Mechanisms ---------------------------------------------------------------------
TEST(Mechanism, EveryRowIsCitedByCommitAndPlace) {
    EXPECT_GE(mechanisms().size(), 35u);
    for (const Mechanism& m : mechanisms()) {
        EXPECT_TRUE(m.timed || m.scheme.empty()) << m.name;
        ASSERT_FALSE(m.sources.empty()) << m.name;
        for (const std::string& s : m.sources) {
            const auto at = s.find('@');
            ASSERT_NE(at, s.npos) << s;
            EXPECT_EQ(s.find_first_not_of("0123456789abcdef", at + 1), at + 41) << s;
        }
        for (const std::string* said : {&m.exchange, &m.divide, &m.clip, &m.update})
            EXPECT_FALSE(said->empty()) << m.name;
    }
}
TEST(Mechanism, IsFoundByNameAndVersion) {
    const auto name = [](const char* framework, const char* model = "resnet-50",
                         const char* collective = "") {
        const Mechanism* m = find_mechanism(framework, model, collective);
        return m != nullptr ? m->name : "unknown";
    };
    EXPECT_EQ(name("tensorflow 1.9 + horovod 0.13 (openmpi 3.1.1)"), "Horovod before 0.21");
    EXPECT_EQ(name("pytorch + horovod 0.21.3"), "Horovod 0.21 and newer");
    EXPECT_EQ(name("horovod 1"), "Horovod 0.21 and newer");
    EXPECT_EQ(name("pytorch + horovod"), "Horovod before 0.21");  // no version is stated
    EXPECT_EQ(name("megatron-lm on pytorch 2.1"), "Megatron-LM");
    EXPECT_EQ(name("pytorch 2.1 fsdp"), "PyTorch FSDP");
    EXPECT_EQ(name("pytorch 19.07 container", "bert-large"), "NVIDIA's BERT container for PyTorch");
    EXPECT_EQ(name("pytorch 19.07 container"), "PyTorch DDP");
    EXPECT_EQ(name("pytorch + horovod v0.22"), "Horovod 0.21 and newer");
    EXPECT_EQ(name("horovod==0.19.5"), "Horovod before 0.21");
    EXPECT_EQ(name("deepspeed zero-3 on pytorch 2.1"), "DeepSpeed, ZeRO stage 3");
    EXPECT_EQ(name("deepspeed zero-2"), "DeepSpeed, ZeRO stages 0 to 2");
    EXPECT_EQ(name("tf 1.4"), "TensorFlow's benchmarks, 2017");
    EXPECT_EQ(name("tensorflow (may 2017)"), "TensorFlow's benchmarks, 2017");
    EXPECT_EQ(name("tf 2.3"), "unknown");
    EXPECT_EQ(name("caffe2 + gloo"), "Caffe2, data_parallel_model");
    EXPECT_EQ(name("pytorch + byteps (2021)"), "BytePS");
    EXPECT_EQ(name("byteps, not horovod"), "BytePS");
    EXPECT_EQ(name("nemo framework 22.11"), "NeMo 1.x, BERT and GPT");
    EXPECT_EQ(name("nemo framework 25.09", "llama 3"), "NeMo 2, recipes of language models");
    EXPECT_EQ(name("nemo 25.09 container", "flux.1"), "NeMo 2, recipe of FLUX");
    EXPECT_EQ(name("nemo 24.09", "bert-large"), "NeMo 2, recipe of BERT");
    EXPECT_EQ(name("torchtitan"), "torchtitan, PyTorch FSDP");
    EXPECT_EQ(name("torchtitan, no ddp"), "torchtitan, PyTorch FSDP");
    EXPECT_EQ(name("torchtitan, fsdp"), "PyTorch FSDP");
    EXPECT_EQ(name("torchtitan, ddp"), "PyTorch DDP") << "told otherwise";
    EXPECT_EQ(name("torchtitan (hsdp)"), "unknown") << "an all-reduce beside it, which has no row";
    EXPECT_EQ(name("cntk"), "unknown");
    EXPECT_EQ(name(""), "unknown");
}
TEST(Mechanism, OfPyTorchNeedsItsWholeName) {
    const auto found = [](const char* framework) {
        const Mechanism* m = find_mechanism(framework, "resnet-50");
        return m != nullptr ? m->name : "unknown";
    };
    for (const char* torch :
         {"pytorch", "pytorch 2.1", "pytorch-lightning", "torch.distributed", "torch==2.8",
          "ray train torchtrainer (ddp)", "pytorch (no xla)", "fairseq, pytorch", "pytorch2.1",
          "torch1.13.1+cu117", "torchrun", "pytorchlightning 2.0", "lightning on pytorch2.4"})
        EXPECT_EQ(found(torch), "PyTorch DDP") << torch;
    for (const char* other : {"torch7", "somethingtorch", "pytorch xla", "pytorch/xla", "torch_xla",
                              "torch_xla2.1", "torchvision0.15", "libtorch 1.8"})
        EXPECT_EQ(found(other), "unknown") << other;
}
/// NeMo 2.0.0 is what container 24.09 holds, which has 24.07 for experiments alone.
TEST(Mechanism, OfNemoIsFoundByReleaseAndByContainer) {
    const auto name = [](const char* framework) {
        const Mechanism* m = find_mechanism(framework, "llama 3 8b");
        return m != nullptr ? m->name : "unknown";
    };
    for (const char* older :
         {"nemo framework", "nemo framework 1.23", "nemo framework 22.11", "nemo framework 24.01",
          "nemo framework container 23.11", "nemo framework 24.07"})
        EXPECT_EQ(name(older), "NeMo 1.x, BERT and GPT") << older;
    for (const char* newer :
         {"nemo 2.0", "nemo framework 2.0", "nemo framework 2.4 (pytorch 2.6)", "nemo 24.09",
          "nemo framework 24.09", "nemo framework container 25.09", "nemo container: 25.02"})
        EXPECT_EQ(name(newer), "NeMo 2, recipes of language models") << newer;
    for (const char* other : {"nemo", "nemo 1.20", "nemo 24.01"})
        EXPECT_EQ(name(other), "unknown") << other << " may be of speech";
}
/// NVIDIA/NeMo's recipes set use_distributed_optimizer.
TEST(Mechanism, OfNemo2ShardsTheUpdate) {
    for (const char* model : {"flux.1", "bert-large", "llama 3 8b"}) {
        const Mechanism* m = find_mechanism("nemo 2.0", model);
        ASSERT_NE(m, nullptr) << model;
        EXPECT_THAT(m->exchange, ::testing::HasSubstr("a reduce-scatter of")) << model;
        EXPECT_THAT(m->update, ::testing::StartsWith("a shard each")) << model;
        EXPECT_EQ(m->traffic, 1) << "an all-gather behind a reduce-scatter is an all-reduce's";
    }
}
/// What a program of TensorFlow reduces gradients by is named beside it or in 'collective'.
TEST(Mechanism, OfTensorFlowIsTheStrategys) {
    const auto name = [](const char* framework, const char* collective = "") {
        const Mechanism* m = find_mechanism(framework, "resnet-50", collective);
        return m != nullptr ? m->name : "unknown";
    };
    const std::string multi = "TensorFlow 2.3 and newer, MultiWorkerMirroredStrategy";
    EXPECT_EQ(name("tensorflow 2.4", "multiworkermirroredstrategy (nccl)"), multi);
    for (const char* spelled : {"multi_worker_mirrored", "multi-worker mirrored strategy",
                                "multi worker mirroredstrategy", "multiworker mirrored strategy",
                                "multi-worker-mirrored strategy"})
        EXPECT_EQ(name("tf 2.11", spelled), multi) << spelled;
    const std::string older = "TensorFlow before 2.3, CollectiveAllReduceStrategy";
    EXPECT_EQ(name("tensorflow 2.2, multiworkermirroredstrategy"), older);
    EXPECT_EQ(name("tensorflow 1.12", "contrib.distribute.collectiveallreducestrategy"), older);
    EXPECT_EQ(name("tf.distribute", "mirroredstrategy"), "TensorFlow, MirroredStrategy");
    for (const char* spelled : {"parameterserverstrategy", "parameter server strategy"})
        EXPECT_EQ(name("tensorflow 2.4", spelled), "TensorFlow, ParameterServerStrategy");
    EXPECT_EQ(name("tensorflow 2.4", "nccl, no mirroredstrategy"), "unknown");
    EXPECT_EQ(name("tensorflow 20.06 container"), "NVIDIA's containers for TensorFlow");
    EXPECT_EQ(name("tensorflow + horovod (tensorpack)"), "Horovod before 0.21");
    EXPECT_EQ(name("tensorflow 1.6.0, tensorpack 0.8.3", "nccl (replicated)"), "tensorpack");
}
/// Their --variable_update decides; one that is not stated may be any.
TEST(Mechanism, OfTensorFlowsBenchmarksIsTheirMode) {
    const auto found = [](const char* framework, const char* collective = "") {
        return find_mechanism(framework, "resnet-50", collective);
    };
    const char* const year = "TensorFlow's benchmarks, 2018 and newer";
    EXPECT_EQ(found("tensorflow 1.10 (tf_cnn_benchmarks)", "parameter server on cpu")->name, year);
    EXPECT_EQ(found("tensorflow 1.12 (tf_cnn_benchmarks)", "replicated, nccl")->name, year);
    EXPECT_EQ(found("tensorflow 1.3 (tf_cnn_benchmarks)", "replicated")->name,
              "TensorFlow's benchmarks, 2017");
    for (const char* which : {"tensorflow 1.12 (tf_cnn_benchmarks)", "tensorflow (may 2017)"})
        EXPECT_EQ(found(which, "distributed_replicated, on the workers")->name,
                  "TensorFlow's benchmarks, distributed_replicated");
    EXPECT_EQ(found("tensorflow 1.12 (tf_cnn_benchmarks)", "collective_all_reduce")->scheme,
              "buckets");
    EXPECT_EQ(found("tensorflow 1.12 (tf_cnn_benchmarks)", "variable_update=horovod")->name,
              "TensorFlow's benchmarks on Horovod");
    EXPECT_FALSE(found("tensorflow 1.15 (20.12 container), tf_cnn_benchmarks")->timed);
}
TEST(Mechanism, SetsWhatTheStackDoes) {
    const auto stack = [](const char* framework) {
        return find_stack(
            read_conditions(Json{{"gpu", "V100"}, {"framework", framework}, {"model", "VGG-16"}}),
            calibrated());
    };
    EXPECT_EQ(stack("Megatron-LM").scheme, Scheme::after_backward);
    EXPECT_EQ(stack("PyTorch FSDP").traffic, 1.5);
    EXPECT_EQ(stack("Colossal-AI").bucket_mb, 50.3);
    EXPECT_EQ(stack("TensorFlow + Horovod 0.19").fusion_mb, 64);
    EXPECT_EQ(stack("TensorFlow + Horovod 0.28").fusion_mb, 134.2);
    EXPECT_EQ(stack("TensorFlow + Horovod 0.28").cycle_ms, 1);
    EXPECT_TRUE(stack("PyTorch 1.4").known);
    EXPECT_EQ(stack("Theano-MPI (BSP)").scheme, Scheme::after_backward);
    EXPECT_EQ(stack("TensorFlow 2.4, MirroredStrategy").scheme, Scheme::after_backward);
    const Stack alone = stack("TensorFlow 2.4, ParameterServerStrategy");
    EXPECT_FALSE(alone.known) << "nobody waits for another: no scheme of steps is like it";
    EXPECT_EQ(alone.name, calibrated().tensorflow.name);
    EXPECT_FALSE(stack("CNTK").known);
    EXPECT_EQ(stack("CNTK").name, calibrated().pytorch.name);
    EXPECT_FALSE(stack("PyTorch + BytePS").known) << "stated, and not timed";
    EXPECT_EQ(stack("PyTorch + BytePS").name, calibrated().pytorch.name);
}
Prediction vgg16_on_64(const std::string& framework, const std::string& collective = "") {
    const std::string text =
        R"([{"id": "a", "conditions": {"gpu": "V100-SXM2-16GB", "gpus_per_node": 8,
            "nic_gbps_per_node": 25, "transport": "TCP", "model": "VGG-16",
            "batch_per_gpu": 32, "precision": "fp32", "collective": ")" +
        collective + R"(", "framework": ")" + framework + R"("}, "measured": [
            {"gpus": 1, "role": "base", "value": 240, "unit": "img/s"},
            {"gpus": 64, "role": "target", "unit": "img/s"}]}])";
    return Predictor()(read_cases(text, "a.json").at(0));
}
TEST(Mechanism, OfMxnetsKvstoreIsReadInTheFrameworksNameToo) {
    const double stated = vgg16_on_64("MXNet 1.4", "kvstore dist_sync").points.at(0).efficiency_pct;
    for (const char* named : {"MXNet 1.4 kvstore", "MXNet 1.4 (kvstore dist_device_sync)",
                              "MXNet 1.4, dist_sync", "Gluon, kvstore dist_sync"}) {
        const Prediction p = vgg16_on_64(named);
        EXPECT_EQ(p.stack, "mxnet-kvstore") << named;
        EXPECT_EQ(p.points.at(0).efficiency_pct, stated) << named;
        EXPECT_THAT(p.assumed, ::testing::IsEmpty()) << named;
    }
    EXPECT_EQ(vgg16_on_64("MXNet 1.4, no kvstore").stack, "mxnet-horovod");
    EXPECT_EQ(vgg16_on_64("MXNet (kvstore local)", "NCCL").stack, "mxnet-horovod")
        << "what is stated for itself holds";
}
/// As MXNet spells it: mx.kv.create('horovod').
TEST(Mechanism, OfHorovodIsNotReadAsMxnetsKvstore) {
    const double stated = vgg16_on_64("MXNet + Horovod").points.at(0).efficiency_pct;
    for (const auto& [framework, collective] : {std::pair{"MXNet + Horovod, kvstore=horovod", ""},
                                                {"MXNet, kvstore=horovod", ""},
                                                {"MXNet + Horovod, kvstore local", ""},
                                                {"MXNet", "kvstore=horovod"}}) {
        const Prediction p = vgg16_on_64(framework, collective);
        EXPECT_EQ(p.stack, "mxnet-horovod") << framework << collective;
        EXPECT_EQ(p.points.at(0).efficiency_pct, stated) << framework << collective;
    }
    EXPECT_EQ(vgg16_on_64("MXNet + Horovod", "kvstore dist_sync").stack, "mxnet-kvstore");
}
/// `why` quotes a mechanism, and the costs may be those of another one.
TEST(Mechanism, OneThatTheCostsAreNotOfIsAssumed) {
    EXPECT_THAT(vgg16_on_64("MXNet 1.4").assumed,
                ::testing::Contains("MXNet's kvstore: the costs are of another exchange of "
                                    "gradients: mxnet-horovod assumed"));
    EXPECT_THAT(vgg16_on_64("TensorFlow 1.4").assumed,
                ::testing::Contains("TensorFlow's benchmarks, 2017: the costs are of another "
                                    "exchange of gradients: tensorflow-horovod assumed"));
    EXPECT_THAT(vgg16_on_64("TensorFlow 1.4", "replicated").assumed, ::testing::IsEmpty());
    EXPECT_THAT(vgg16_on_64("MXNet + Horovod", "kvstore dist_sync").assumed,
                ::testing::Contains("Horovod before 0.21: the costs are of another exchange of "
                                    "gradients: mxnet-kvstore assumed"));
    for (const char* same : {"MXNet 1.4 + Horovod", "PyTorch 1.4", "TensorFlow + Horovod 0.19"})
        EXPECT_THAT(vgg16_on_64(same).assumed, ::testing::IsEmpty()) << same;
}
/// VGG-16 has half a gigabyte of gradient, so whether it overlaps with backward makes a difference.
TEST(Mechanism, OneThatIsNotKnownWidensTheInterval) {
    const auto predicted = [](const std::string& framework) {
        const std::string text =
            R"([{"id": "a", "conditions": {"gpu": "V100-SXM2-16GB", "gpus_per_node": 8,
                "nic_gbps_per_node": 25, "transport": "TCP", "model": "VGG-16",
                "batch_per_gpu": 32, "precision": "fp32", "framework": ")" +
            framework + R"("}, "measured": [
                {"gpus": 1, "role": "base", "value": 240, "unit": "img/s"},
                {"gpus": 64, "role": "target", "unit": "img/s"}]}])";
        return Predictor()(read_cases(text, "a.json").at(0));
    };
    const Prediction known = predicted("PyTorch DDP"), unknown = predicted("CNTK");
    ASSERT_EQ(known.error, "");
    ASSERT_EQ(unknown.error, "");
    EXPECT_NE(known.why.find("reducer.hpp:31"), std::string::npos) << known.why;
    EXPECT_NE(unknown.why.find("how 'cntk' exchanges gradients is not known"), std::string::npos)
        << unknown.why;
    const PredictedPoint &a = known.points.at(0), &b = unknown.points.at(0);
    EXPECT_EQ(a.efficiency_pct, b.efficiency_pct);
    EXPECT_LE(b.low_pct, a.low_pct);
    EXPECT_GT(b.high_pct, a.high_pct + 1);

    const Prediction stated = predicted("PyTorch + BytePS");
    EXPECT_EQ(stated.points.at(0).high_pct, b.high_pct);
    EXPECT_THAT(stated.assumed,
                ::testing::Contains(
                    "BytePS: its exchange of gradients is not modelled: pytorch-ddp assumed"));
    EXPECT_THAT(stated.why, ::testing::HasSubstr("global.cc:42"));
    EXPECT_THAT(stated.why,
                ::testing::HasSubstr("how 'pytorch + byteps' exchanges gradients is not modelled"));
    EXPECT_EQ(known.assumed.size() + 1, stated.assumed.size());
}

}  // namespace
