"""LeNet on MNIST with MindSpore, adapted as the tutorial of Xihe asks for: what to begin with, the data and
the place for results come as --pretrain_url, --data_url and --output_path; nothing is downloaded."""

import argparse
import os

import mindspore
from mindspore import dataset, load_checkpoint, load_param_into_net, nn
from mindspore.dataset import transforms, vision
from mindspore.train import Callback, CheckpointConfig, LossMonitor, Model, ModelCheckpoint


class LeNet(nn.Cell):
    """Two convolutions, three dense layers."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, pad_mode="valid")
        self.conv2 = nn.Conv2d(6, 16, 5, pad_mode="valid")
        self.fc1 = nn.Dense(16 * 5 * 5, 120)
        self.fc2 = nn.Dense(120, 84)
        self.fc3 = nn.Dense(84, 10)
        self.relu = nn.ReLU()
        self.pool = nn.MaxPool2d(kernel_size=2, stride=2)
        self.flatten = nn.Flatten()

    def construct(self, x):
        x = self.pool(self.relu(self.conv1(x)))
        x = self.pool(self.relu(self.conv2(x)))
        x = self.flatten(x)
        return self.fc3(self.relu(self.fc2(self.relu(self.fc1(x)))))


class ValAccMonitor(Callback):
    """Says after each epoch how well the test images are read."""

    def __init__(self, model, data):
        self.model = model
        self.data = data

    def on_train_epoch_end(self, run_context):
        run = run_context.original_args()
        accuracy = self.model.eval(self.data, dataset_sink_mode=False)["accuracy"]
        loss = float(run.net_outputs.asnumpy())
        print(
            f"Epoch: [{run.cur_epoch_num: 3d} / {run.epoch_num: 3d}], "
            f"Train Loss: [{loss:5.3f}], Accuracy: {accuracy: 5.3f}",
            flush=True,
        )


def mnist(folder, part, batch_size):
    data = dataset.MnistDataset(os.path.join(folder, part), shuffle=part == "train")
    images = [vision.Resize((32, 32)), vision.Rescale(1 / 128, -1), vision.HWC2CHW()]
    data = data.map(images, "image")
    data = data.map(transforms.TypeCast(mindspore.int32), "label")
    return data.batch(batch_size)


def parse_args():
    parser = argparse.ArgumentParser(description="train mnist")
    parser.add_argument("--pretrain_url", default="", help="weights to begin with")
    parser.add_argument("--data_url", default="", help="folder with train/ and test/")
    parser.add_argument("--output_path", default="", help="where the weights go")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--learning_rate", type=float, default=0.01)
    parser.add_argument("--momentum", type=float, default=0.9)
    return parser.parse_args()


def train(args_opt):
    mindspore.run_check()
    network = LeNet()
    if args_opt.pretrain_url:
        load_param_into_net(network, load_checkpoint(args_opt.pretrain_url))
        print("begins with", os.path.basename(args_opt.pretrain_url), flush=True)
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    rate, momentum = args_opt.learning_rate, args_opt.momentum
    optimizer = nn.Momentum(network.trainable_params(), rate, momentum)
    model = Model(network, loss_fn=loss, optimizer=optimizer, metrics={"accuracy"})
    images = mnist(args_opt.data_url, "train", args_opt.batch_size)
    steps = images.get_dataset_size()
    config = CheckpointConfig(save_checkpoint_steps=steps, keep_checkpoint_max=10)
    save = ModelCheckpoint("lenet", directory=args_opt.output_path or ".", config=config)
    watch = ValAccMonitor(model, mnist(args_opt.data_url, "test", args_opt.batch_size))
    callbacks = [save, LossMonitor(max(1, steps // 4)), watch]
    model.train(args_opt.epochs, images, callbacks=callbacks, dataset_sink_mode=False)


if __name__ == "__main__":
    train(parse_args())
