//! Nodes read as values.

use zk_core::codec::{Codec as _, Raw, Text};
use zk_core::{ErrorClass, ErrorKind, ReadError};

use crate::{connect, with_ensemble};

#[tokio::test(flavor = "multi_thread")]
async fn value_goes_in_and_comes_out_or_is_refused_with_its_place() {
    with_ensemble(async |ensemble| {
        let session = connect(ensemble).await;
        let view = session.with_namespace("/app").unwrap();
        let motto = "all or none".to_owned();
        let made = view.create("/motto", Text.encode(&motto).unwrap());
        let (_, made) = made.parents().await.unwrap();
        let (read, stat): (String, _) = view.get("/motto").decoded(Text).await.unwrap();
        assert_eq!((read, stat), (motto, made));

        view.set("/motto", b"a\n\xff".as_slice()).await.unwrap();
        let error = view.get("/motto").decoded(Text).await.unwrap_err();
        assert_eq!(error.class(), ErrorClass::Outcome);
        assert_eq!(
            error.to_string(),
            "the data of /motto is not valid text at line 2, column 1: \
             byte 0xff at offset 2 is not UTF-8; write the text in UTF-8"
        );
        let ReadError::Decode(error) = error else {
            panic!("{error:?}");
        };
        assert_eq!(error.path().unwrap().as_str(), "/motto");

        let error = view.get("/none").decoded(Text).await.unwrap_err();
        assert!(
            matches!(&error, ReadError::Operation(error) if error.is_no_node()),
            "{error}"
        );

        let large = Raw.encode(&vec![0; (1 << 20) + 1]).unwrap();
        let error = view.set("/motto", large).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.attempts()),
            (ErrorKind::TooLarge, 0),
            "{error}"
        );
    })
    .await;
}
